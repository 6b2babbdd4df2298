#include "common/tensor/slices.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/tensor/buffer.h"

namespace sangam {

SlicePayload::SlicePayload(std::vector<ByteSpan> pieces, std::shared_ptr<const void> owner)
    : pieces_(std::move(pieces)), owner_(std::move(owner)) {
  for (const ByteSpan& piece : pieces_) size_ += piece.size;
}

SlicePayload SlicePayload::FromFloats(FloatBuffer buffer, size_t first, size_t count) {
  SANGAM_CHECK(first + count <= buffer.size());
  const ByteSpan piece = {reinterpret_cast<const uint8_t*>(buffer.data() + first),
                          count * sizeof(float)};
  return SlicePayload({piece}, std::make_shared<FloatBuffer>(std::move(buffer)));
}

SlicePayload SlicePayload::Sub(size_t offset, size_t count) const {
  SANGAM_CHECK(offset + count <= size_);
  std::vector<ByteSpan> pieces;
  for (const ByteSpan& piece : pieces_) {
    if (count == 0) break;
    if (offset >= piece.size) {
      offset -= piece.size;
      continue;
    }
    const size_t taken = std::min(piece.size - offset, count);
    pieces.push_back({piece.data + offset, taken});
    offset = 0;
    count -= taken;
  }
  return SlicePayload(std::move(pieces), owner_);
}

void SlicePayload::CopyTo(void* destination) const {
  uint8_t* out = static_cast<uint8_t*>(destination);
  for (const ByteSpan& piece : pieces_) {
    if (piece.size == 0) continue;
    std::memcpy(out, piece.data, piece.size);
    out += piece.size;
  }
}

const uint8_t* SliceCursor::Next(size_t count, uint8_t* scratch) {
  while (piece_ < pieces_->size() && offset_ == (*pieces_)[piece_].size) {
    ++piece_;
    offset_ = 0;
  }
  if (count == 0) return scratch;
  SANGAM_CHECK(piece_ < pieces_->size());
  const ByteSpan& current = (*pieces_)[piece_];
  if (current.size - offset_ >= count) {
    const uint8_t* found = current.data + offset_;
    offset_ += count;
    return found;
  }
  size_t copied = 0;
  while (copied < count) {
    SANGAM_CHECK(piece_ < pieces_->size());
    const ByteSpan& piece = (*pieces_)[piece_];
    const size_t taken = std::min(piece.size - offset_, count - copied);
    if (taken > 0) std::memcpy(scratch + copied, piece.data + offset_, taken);
    copied += taken;
    offset_ += taken;
    if (copied < count) {
      ++piece_;
      offset_ = 0;
    }
  }
  return scratch;
}

}  // namespace sangam
