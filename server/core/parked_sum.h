#ifndef SANGAM_SERVER_CORE_PARKED_SUM_H_
#define SANGAM_SERVER_CORE_PARKED_SUM_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/plan/span.h"
#include "common/tensor/slices.h"
#include "server/core/vector_kernels.h"

namespace sangam {

// A gradient sum as it arrived: binary32, little-endian, not copied.
struct ParkedGradient {
  ShareSpan span;
  // Number of samples summed over.
  uint64_t samples = 0;
  SlicePayload elements;
  uint32_t use = 0;     // of the segment; errors name it
  uint32_t source = 0;  // index into Plan.worker; errors name it
};

// A sum over parked gradients that has been written down but not computed: the gradients from left
// to right and how the tree of spans brackets them, or the sums of several uses from left to right.
// Nothing is added before Mean, which reads every gradient once. Value type, not thread-safe.
class ParkedSum {
 public:
  explicit ParkedSum(ParkedGradient gradient);

  // The sum left + right, bracketed as it stands.
  static ParkedSum Merge(ParkedSum left, ParkedSum right);

  // Sum of the gradients' samples.
  uint64_t samples() const;

  // Writes sum / divisor to `out`, in float, in one pass: each tile of the sum is computed in the
  // order of the brackets while it lies in the innermost cache. Returns whether every element is
  // finite; `out` is written either way.
  // REQUIRES: every gradient has `count` elements.
  bool Mean(size_t count, float divisor, float* out, const VectorKernels& kernels) const;

  // The gradients whose own payload has an element that is not finite; borrowed from this sum.
  std::vector<const ParkedGradient*> NonFinite() const;

 private:
  // Postfix notation: a gradient is pushed, then `additions` times the two topmost are added.
  struct Term {
    ParkedGradient gradient;
    uint32_t additions = 0;
  };
  std::vector<Term> terms_;
};

// SpanTree's merge: notes the order, adds nothing.
struct MergeParked {
  ParkedSum operator()(ParkedSum left, ParkedSum right) const {
    return ParkedSum::Merge(std::move(left), std::move(right));
  }
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_PARKED_SUM_H_
