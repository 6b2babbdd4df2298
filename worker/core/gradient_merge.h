#ifndef SANGAM_WORKER_CORE_GRADIENT_MERGE_H_
#define SANGAM_WORKER_CORE_GRADIENT_MERGE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/span.h"
#include "common/plan/span_tree.h"
#include "common/tensor/buffer.h"

namespace sangam {

// Sum of the gradients of `samples` loss terms with respect to one block's parameters.
struct GradientSum {
  FloatBuffer values;
  uint64_t samples = 0;
};

// Merges the gradients of one use of a segment for the shares that one worker computes, in the
// fixed order of the job's span tree, and gives out the largest sums that the worker can make
// alone.
//
// Pure and not thread-safe. Once all of the worker's shares have been added, the next step begins
// by itself.
class GradientMerge {
 public:
  // A sum that goes to the servers.
  struct Finished {
    ShareSpan span;
    GradientSum sum;
    // Whether it is the worker's last one of the step.
    bool last = false;
  };

  // The worker's shares `worker_shares` of the job's [0, shares).
  // REQUIRES: worker_shares is not empty and lies within [0, shares).
  GradientMerge(ShareSpan worker_shares, uint32_t shares);

  // Adds the gradient of `span`, a node of the job's tree; the merge may write into `gradient`'s
  // buffer, and lets go of buffers that were added to others. Returns the maximal span that became
  // complete, if one did. Errors: InvalidArgument  shares that are not the worker's or no node of
  // the tree, or the lengths
  //                          of two gradients differ
  //         AlreadyExists    a share was added in this step
  absl::StatusOr<std::optional<Finished>> Add(ShareSpan span, GradientSum gradient);
  absl::StatusOr<std::optional<Finished>> Add(uint32_t share, GradientSum gradient) {
    return Add(ShareSpan{share, share + 1}, std::move(gradient));
  }

 private:
  // Adds the right sum to the left one, element by element.
  struct AddRight {
    absl::StatusOr<GradientSum> operator()(GradientSum left, const GradientSum& right) const;
  };

  const ShareSpan worker_shares_;
  const std::vector<ShareSpan> maximal_;
  SpanTree<GradientSum, AddRight> tree_;
  std::vector<bool> added_;  // by share, from worker_shares_.begin
  uint32_t missing_;         // shares that have not been added in this step
};

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_GRADIENT_MERGE_H_
