#ifndef SANGAM_COMMON_DATA_RECORD_STORE_H_
#define SANGAM_COMMON_DATA_RECORD_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

namespace sangam {

// Records of one size, in memory in blocks: it grows without being copied, and nothing is touched
// that holds no record. Not thread-safe while it grows.
class RecordStore {
 public:
  // `record_bytes` > 0. Refuses to hold more than `max_memory_bytes`.
  RecordStore(uint64_t record_bytes, uint64_t max_memory_bytes);

  // A new record behind the others; its bytes are undefined, and aligned as a number of 4 bytes
  // when record_bytes is a multiple of 4. Errors: ResourceExhausted  more memory is needed than
  // allowed, or than can be had
  absl::StatusOr<uint8_t*> Add();
  // REQUIRES: size() > 0.
  void RemoveLast() { --size_; }
  // Whether `count` records would be more than allowed.
  absl::Status CheckRoom(uint64_t count) const;

  uint64_t size() const { return size_; }
  uint64_t memory_bytes() const { return size_ * record_bytes_; }
  // REQUIRES: record < size().
  const uint8_t* At(uint64_t record) const {
    return blocks_[record / records_per_block_].get() + record % records_per_block_ * record_bytes_;
  }
  uint8_t* At(uint64_t record) {
    return blocks_[record / records_per_block_].get() + record % records_per_block_ * record_bytes_;
  }

 private:
  uint64_t record_bytes_;
  uint64_t records_per_block_;
  uint64_t max_memory_bytes_;
  uint64_t size_ = 0;
  std::vector<std::unique_ptr<uint8_t[]>> blocks_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_RECORD_STORE_H_
