#ifndef SANGAM_WORKER_RUNTIME_GRADIENT_OUTBOX_H_
#define SANGAM_WORKER_RUNTIME_GRADIENT_OUTBOX_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "proto/plan.pb.h"
#include "worker/core/gradient_merge.h"
#include "worker/core/page_progress.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/segment_store.h"

namespace sangam {

// Where lanes leave the gradients of their shares: merges them use by use (ParameterUse) and sends
// each sum the moment it is complete. Owns the gradients' memory, a bounded number of buffers for
// each use. Thread-safe: lanes meet only when they finish the same use.
class GradientOutbox {
 public:
  // For the worker at index `worker` of the plan, with `lanes` lanes. Sets aside one buffer for
  // each lane and use; others follow on demand, up to GradientBuffers. Errors: InvalidArgument    a
  // plan that contradicts itself
  //         ResourceExhausted  the memory cannot be had
  static absl::StatusOr<std::unique_ptr<GradientOutbox>> Create(const v1::Plan& plan,
                                                                uint32_t worker, uint32_t lanes);

  // A buffer for the gradient of one share; its content is arbitrary.
  // Errors: InvalidArgument    the worker does not have this use of the segment
  //         ResourceExhausted  more gradients are on their way than any plan needs; names both
  absl::StatusOr<FloatBuffer> Take(uint32_t segment, uint32_t use);

  // The gradient of one use of a segment for one share, or for several, taken at the weights of
  // `step`.
  struct Gradient {
    uint64_t step = 0;
    uint32_t segment = 0;
    uint32_t use = 0;
    uint32_t share = 0;
    GradientSum sum;
    uint32_t shares = 1;  // from `share` on, a node of the tree

    ShareSpan span() const { return {share, share + shares}; }
  };
  // Whether the gradient goes to the servers as the lane computes it, because no other of this
  // worker's gradients of the step is added to it or is of its segment. Then its pages may leave
  // before the others are computed (EmitPart), and the store is told here to expect the segment's
  // next weights: the lane reads the present ones for the last time. `gradient`: its values are
  // not computed yet.
  // An Emit must follow.
  // Errors: as Take
  absl::StatusOr<bool> BeginParts(const Gradient& gradient, SegmentStore* store);
  // After BeginParts: elements [first, first + count) of gradient.sum.values are final. Sends the
  // pages that thereby are. Errors: PageProgress::Add's, ParameterLink::PushPages's, and as Take
  absl::Status EmitPart(const Gradient& gradient, uint64_t first, uint64_t count,
                        ParameterLink* link);

  // Merges the gradient and, when a maximal span of the worker is complete, sends it. With the last
  // span of a step of the last of the worker's uses the store is told to expect the segment's next
  // weights. After BeginParts: sends what EmitPart has not.
  // Errors: GradientMerge::Add's, ParameterLink::PushGradient's, and as Take
  absl::Status Emit(Gradient gradient, SegmentStore* store, ParameterLink* link);

 private:
  struct Use {
    Use(size_t elements, size_t max_buffers, ShareSpan worker_shares, uint32_t shares)
        : pool(elements, max_buffers), merge(worker_shares, shares) {}
    Mutex mutex;
    FloatBufferPool pool ABSL_GUARDED_BY(mutex);
    GradientMerge merge ABSL_GUARDED_BY(mutex);
    // Of a gradient whose parts are sent as they come.
    std::optional<PageProgress> parts ABSL_GUARDED_BY(mutex);
  };
  // The uses of one segment that the worker has.
  struct Segment {
    std::map<uint32_t, Use> uses;  // does not change after Create
    Mutex mutex;
    size_t missing ABSL_GUARDED_BY(mutex) = 0;  // uses whose last span has not been merged
  };

  GradientOutbox() = default;
  absl::StatusOr<Use*> Find(uint32_t segment, uint32_t use);
  static absl::Status Push(const Gradient& gradient, PageSpan pages, ParameterLink* link);
  // Notes that a use is through with its step; whether it was the segment's last one.
  bool EndUse(Segment* segment);

  uint64_t page_elements_ = 0;
  // All of the worker's shares, where they are one node of the tree.
  std::optional<ShareSpan> whole_;
  std::map<uint32_t, Segment> segments_;  // those that the worker needs; as `uses`
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_GRADIENT_OUTBOX_H_
