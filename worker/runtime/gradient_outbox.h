#ifndef SANGAM_WORKER_RUNTIME_GRADIENT_OUTBOX_H_
#define SANGAM_WORKER_RUNTIME_GRADIENT_OUTBOX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "proto/plan.pb.h"
#include "worker/core/gradient_merge.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/segment_store.h"

namespace sangam {

// Where lanes leave the gradients of their shares: merges them segment by segment and sends each
// sum the moment it is complete. Owns the gradients' memory, a bounded number of buffers for each
// segment. Thread-safe: lanes meet only when they finish the same segment.
class GradientOutbox {
 public:
  // For a worker that computes `worker_shares` with `lanes` lanes. Sets aside one buffer for each
  // lane and segment; others follow on demand.
  // Errors: ResourceExhausted  the memory cannot be had
  static absl::StatusOr<std::unique_ptr<GradientOutbox>> Create(const v1::Plan& plan,
                                                                ShareSpan worker_shares,
                                                                uint32_t lanes);

  // A buffer for the gradient of one share; its content is arbitrary.
  // Errors: ResourceExhausted  more gradients are on their way than any plan needs; names segment
  absl::StatusOr<FloatBuffer> Take(uint32_t segment);

  // The gradient of one segment for one share, taken at the weights of `step`.
  struct Gradient {
    uint64_t step = 0;
    uint32_t segment = 0;
    uint32_t share = 0;
    GradientSum sum;
  };
  // Merges the gradient and, when a maximal span of the worker is complete, sends it. With the last
  // span of a step the store is told to expect the segment's next weights.
  // Errors: GradientMerge::Add's, ParameterLink::PushGradient's
  absl::Status Emit(Gradient gradient, SegmentStore* store, ParameterLink* link);

  // Most memory that the gradients of such a worker can need, in bytes.
  static uint64_t MaxMemoryBytes(const v1::Plan& plan, ShareSpan worker_shares, uint32_t lanes);

 private:
  struct Segment {
    Segment(size_t elements, size_t max_buffers, ShareSpan worker_shares, uint32_t shares)
        : pool(elements, max_buffers), merge(worker_shares, shares) {}
    Mutex mutex;
    FloatBufferPool pool ABSL_GUARDED_BY(mutex);
    GradientMerge merge ABSL_GUARDED_BY(mutex);
  };

  GradientOutbox() = default;
  static size_t MaxBuffers(const v1::Plan& plan, ShareSpan worker_shares, uint32_t lanes);

  std::vector<std::unique_ptr<Segment>> segments_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_GRADIENT_OUTBOX_H_
