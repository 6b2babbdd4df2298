#include "server/core/parked_sum.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/plan/span.h"
#include "common/tensor/slices.h"
#include "server/core/vector_kernels.h"

namespace sangam {
namespace {

// 4 KiB: a handful of tiles stays in the first-level cache, and of a payload's 64 KiB pieces only
// one tile in sixteen straddles two and must be copied.
constexpr size_t kTileElements = 1024;

// Partial sums that can wait at once. A right child has at most half of its parent's shares, so 32
// levels of right children exhaust the 2^32 shares that a span can name; and the sum of the uses in
// front waits below them.
constexpr size_t kMaxDepth = 34;

// The partial sums of one tile. Level d of the stack owns tiles_[d], which holds either a partial
// sum or a copy of a payload's straddling elements; what needs no copy is used where it lies.
class TileStack {
 public:
  explicit TileStack(const VectorKernels& kernels) : kernels_(kernels) {}

  void Push(SliceCursor* cursor, size_t count) {
    SANGAM_CHECK(depth_ < kMaxDepth);
    uint8_t* scratch = Bytes(depth_);
    operand_[depth_] = cursor->Next(count * sizeof(float), scratch);
    ++depth_;
  }

  // Replaces the two topmost by their sum.
  void Add(size_t count) {
    const uint8_t* right = operand_[--depth_];
    const size_t level = depth_ - 1;
    if (operand_[level] == Bytes(level)) {
      kernels_.add_to(right, tiles_[level], count);
    } else {
      kernels_.add(operand_[level], right, tiles_[level], count);
      operand_[level] = Bytes(level);
    }
  }

  // Empties the stack: writes what is left, divided, to `out`.
  bool Finish(float divisor, float* out, size_t count) {
    const bool two = depth_ == 2;
    SANGAM_CHECK(two || depth_ == 1);
    depth_ = 0;
    return two ? kernels_.add_divide(operand_[0], operand_[1], divisor, out, count)
               : kernels_.divide(operand_[0], divisor, out, count);
  }

 private:
  uint8_t* Bytes(size_t level) { return reinterpret_cast<uint8_t*>(tiles_[level]); }

  const VectorKernels& kernels_;
  size_t depth_ = 0;
  const uint8_t* operand_[kMaxDepth];
  alignas(64) float tiles_[kMaxDepth][kTileElements];
};

bool AllFinite(const SlicePayload& elements) {
  SliceCursor cursor(elements);
  for (size_t i = 0; i < elements.size() / sizeof(float); ++i) {
    uint8_t scratch[sizeof(float)];
    float value;
    std::memcpy(&value, cursor.Next(sizeof(float), scratch), sizeof(value));
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace

ParkedSum::ParkedSum(ParkedGradient gradient) { terms_.push_back({std::move(gradient), 0}); }

ParkedSum ParkedSum::Merge(ParkedSum left, ParkedSum right) {
  left.terms_.insert(left.terms_.end(), std::make_move_iterator(right.terms_.begin()),
                     std::make_move_iterator(right.terms_.end()));
  ++left.terms_.back().additions;
  return left;
}

uint64_t ParkedSum::samples() const {
  uint64_t sum = 0;
  for (const Term& term : terms_) sum += term.gradient.samples;
  return sum;
}

bool ParkedSum::Mean(size_t count, float divisor, float* out, const VectorKernels& kernels) const {
  std::vector<SliceCursor> cursors;
  cursors.reserve(terms_.size());
  for (const Term& term : terms_) {
    SANGAM_CHECK(term.gradient.elements.size() == count * sizeof(float));
    cursors.emplace_back(term.gradient.elements);
  }
  TileStack stack(kernels);
  bool finite = true;
  for (size_t first = 0; first < count; first += kTileElements) {
    const size_t tile = std::min(kTileElements, count - first);
    for (size_t t = 0; t < terms_.size(); ++t) {
      stack.Push(&cursors[t], tile);
      // The last addition of all is fused with the division.
      const bool last = t + 1 == terms_.size();
      const uint32_t fused = last && t > 0 ? 1 : 0;
      for (uint32_t a = fused; a < terms_[t].additions; ++a) stack.Add(tile);
    }
    finite &= stack.Finish(divisor, out + first, tile);
  }
  return finite;
}

std::vector<const ParkedGradient*> ParkedSum::NonFinite() const {
  std::vector<const ParkedGradient*> gradients;
  for (const Term& term : terms_) {
    if (!AllFinite(term.gradient.elements)) gradients.push_back(&term.gradient);
  }
  return gradients;
}

}  // namespace sangam
