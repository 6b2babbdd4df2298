#ifndef SANGAM_COMMON_TENSOR_SLICES_H_
#define SANGAM_COMMON_TENSOR_SLICES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/tensor/buffer.h"

namespace sangam {

// Bytes that belong to somebody else.
struct ByteSpan {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

// A payload as it arrived: pieces of memory in order, of any length and alignment, and the owner
// that keeps them alive. Elements may straddle pieces. Copying shares the memory. Read-only, so it
// may be read on several threads.
class SlicePayload {
 public:
  SlicePayload() = default;
  // `owner` keeps the memory of `pieces` alive (shared, because a payload that is parked, sent to
  // several readers or both has several holders).
  SlicePayload(std::vector<ByteSpan> pieces, std::shared_ptr<const void> owner);

  // Elements [first, first + count) of `buffer`, as little-endian binary32. Copies nothing.
  static SlicePayload FromFloats(FloatBuffer buffer, size_t first, size_t count);

  const std::vector<ByteSpan>& pieces() const { return pieces_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  // Sum over the pieces, in bytes.
  size_t size() const { return size_; }

  // Bytes [offset, offset + count) as a payload of their own; copies nothing.
  // REQUIRES: offset + count <= size().
  SlicePayload Sub(size_t offset, size_t count) const;

  // Copies everything to `destination` (size() bytes).
  void CopyTo(void* destination) const;

 private:
  std::vector<ByteSpan> pieces_;
  std::shared_ptr<const void> owner_;
  size_t size_ = 0;
};

// Walks a payload from front to back, some bytes at a time. Not thread-safe. The payload must
// outlive it.
class SliceCursor {
 public:
  explicit SliceCursor(const SlicePayload& payload) : pieces_(&payload.pieces()) {}

  // The next `count` bytes: a pointer into the payload when they lie in one piece, else `scratch`
  // (of at least `count` bytes) with a copy. The pointer may have any alignment.
  // REQUIRES: at least `count` bytes remain.
  const uint8_t* Next(size_t count, uint8_t* scratch);

 private:
  const std::vector<ByteSpan>* pieces_;
  size_t piece_ = 0;
  size_t offset_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_TENSOR_SLICES_H_
