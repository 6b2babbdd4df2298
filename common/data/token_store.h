#ifndef SANGAM_COMMON_DATA_TOKEN_STORE_H_
#define SANGAM_COMMON_DATA_TOKEN_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

namespace sangam {

// A long sequence of whole numbers of one or two bytes each, little-endian, in memory in blocks: it
// grows without being copied, and nothing is touched that holds no number. Not thread-safe while it
// grows.
class TokenStore {
 public:
  // `token_bytes`: 1 or 2.
  explicit TokenStore(size_t token_bytes) : token_bytes_(token_bytes) {}

  // Memory behind the end for the next bytes, and how many there is room for (at least 1).
  // Errors: ResourceExhausted  the memory cannot be had
  struct Room {
    uint8_t* data = nullptr;
    size_t size = 0;
  };
  absl::StatusOr<Room> MakeRoom();
  // The first `count` bytes of the room were filled.
  void Fill(size_t count) { num_bytes_ += count; }

  uint64_t num_bytes() const { return num_bytes_; }
  // Whole ones.
  uint64_t size() const { return num_bytes_ / token_bytes_; }
  // REQUIRES: index < size().
  uint32_t At(uint64_t index) const {
    const uint64_t byte = index * token_bytes_;
    const uint8_t* data = blocks_[byte / kBlockBytes].get() + byte % kBlockBytes;
    return token_bytes_ == 1 ? data[0] : data[0] | uint32_t{data[1]} << 8;
  }

 private:
  // Even: no token lies in two blocks.
  static constexpr size_t kBlockBytes = size_t{1024} * 1024;

  size_t token_bytes_;
  uint64_t num_bytes_ = 0;
  std::vector<std::unique_ptr<uint8_t[]>> blocks_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_TOKEN_STORE_H_
