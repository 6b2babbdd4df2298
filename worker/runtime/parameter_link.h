#ifndef SANGAM_WORKER_RUNTIME_PARAMETER_LINK_H_
#define SANGAM_WORKER_RUNTIME_PARAMETER_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"

namespace sangam {

// What a link tells its owner. Called on the link's own threads, one call at a time; must be quick
// and must not call the link.
class WeightsReceiver {
 public:
  virtual ~WeightsReceiver() = default;

  // The weights of one page at header.step() have come. The receiver copies them to their place.
  // The same or an older step may come again after a reconnect; the receiver ignores it.
  // An error ends the link.
  virtual absl::Status OnWeights(const v1::FrameHeader& header, const SlicePayload& elements) = 0;

  // The link gave up: a server refused, or could not be reached until the deadline. Called at most
  // once; nothing comes after it.
  virtual void OnLinkFailed(const absl::Status& status) = 0;
};

// One worker's connection to all servers of a job: gradients out, weights in. Thread-safe.
class ParameterLink {
 public:
  virtual ~ParameterLink() = default;

  // Opens one stream to every server that holds a page of `segments`, subscribes to these segments
  // from `first_step` on. Returns at once; `receiver` must outlive the link's Close.
  virtual absl::Status Start(const std::vector<uint32_t>& segments, uint64_t first_step,
                             WeightsReceiver* receiver) = 0;

  // Sends `pages` of the sum of the gradients of `samples` loss terms over the shares `span`; `sum`
  // is the whole segment's. `use`: which use of the segment, index into SegmentLayout.use. Returns
  // at once. Nothing is copied: these pages of `sum` must not be written until the link has let go
  // of it (FloatBuffer::unique), which it does when the servers have answered with the weights of
  // `step` + 1; until then the link can send it again on a new connection. Segments of a lower
  // index go first when several wait.
  // Errors: InvalidArgument     a segment, use or pages that the link was not started for
  //         ResourceExhausted   more gradients are unanswered than any plan needs
  //         FailedPrecondition  the link has failed or is closed
  virtual absl::Status PushPages(uint64_t step, uint32_t segment, uint32_t use, ShareSpan span,
                                 uint64_t samples, const FloatBuffer& sum, PageSpan pages) = 0;
  // All pages.
  absl::Status PushGradient(uint64_t step, uint32_t segment, uint32_t use, ShareSpan span,
                            uint64_t samples, const FloatBuffer& sum) {
    return PushPages(step, segment, use, span, samples, sum, kAllPages);
  }

  // Half-closes the streams and waits for the servers' OK, at most for `deadline`; then no call of
  // the receiver is under way or will come. Called by the destructor with a deadline of 0 when it
  // has not been called.
  virtual absl::Status Close(absl::Duration deadline) = 0;
};

// Makes the link of one plan for the worker at index `worker` of it.
using ParameterLinkFactory = std::function<absl::StatusOr<std::unique_ptr<ParameterLink>>(
    const v1::Plan& plan, uint32_t worker)>;

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_PARAMETER_LINK_H_
