#include "common/data/record_store.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{1024} * 1024;

}  // namespace

RecordStore::RecordStore(uint64_t record_bytes, uint64_t max_memory_bytes)
    : record_bytes_(record_bytes),
      records_per_block_(std::max<uint64_t>(1, kBlockBytes / std::max<uint64_t>(1, record_bytes))),
      max_memory_bytes_(max_memory_bytes) {
  SANGAM_CHECK(record_bytes > 0);
}

absl::Status RecordStore::CheckRoom(uint64_t count) const {
  if (count <= max_memory_bytes_ / record_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(count, " samples need ", record_bytes_,
                                                   " bytes of memory each, allowed are ",
                                                   max_memory_bytes_, " bytes"));
}

absl::StatusOr<uint8_t*> RecordStore::Add() {
  RETURN_IF_ERROR(CheckRoom(size_ + 1));
  if (size_ == blocks_.size() * records_per_block_) {
    // Not zeroed: pages that hold nothing are never touched.
    std::unique_ptr<uint8_t[]> block(new (std::nothrow)
                                         uint8_t[records_per_block_ * record_bytes_]);
    if (block == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot allocate ", records_per_block_ * record_bytes_, " bytes behind the ",
                       memory_bytes(), " that are held"));
    }
    blocks_.push_back(std::move(block));
  }
  ++size_;
  return At(size_ - 1);
}

}  // namespace sangam
