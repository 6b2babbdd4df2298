#include "common/data/token_store.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace sangam {

absl::StatusOr<TokenStore::Room> TokenStore::MakeRoom() {
  const uint64_t block = num_bytes_ / kBlockBytes;
  if (block == blocks_.size()) {
    // Not zeroed: pages that hold nothing are never touched.
    std::unique_ptr<uint8_t[]> memory(new (std::nothrow) uint8_t[kBlockBytes]);
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "cannot allocate ", kBlockBytes, " bytes behind the ", num_bytes_, " that are held"));
    }
    blocks_.push_back(std::move(memory));
  }
  const size_t used = num_bytes_ % kBlockBytes;
  return Room{blocks_[block].get() + used, kBlockBytes - used};
}

}  // namespace sangam
