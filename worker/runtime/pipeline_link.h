#ifndef SANGAM_WORKER_RUNTIME_PIPELINE_LINK_H_
#define SANGAM_WORKER_RUNTIME_PIPELINE_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tensor/buffer.h"
#include "proto/plan.pb.h"
#include "worker/core/flow_tag.h"

namespace sangam {

// One worker's connections to the workers in front of it and behind it, and the mailbox of what has
// come and has not been taken. Tensors between two stages of the same worker go straight to the
// mailbox. Thread-safe; each lane waits for its own tensors only.
class PipelineLink {
 public:
  virtual ~PipelineLink() = default;

  // Opens the streams. `on_failure` is called at most once, on the link's own thread, when the link
  // gives up (a peer refused or was out of reach for too long); it must be quick and must not call
  // the link. Every call that waits, now or later, ends with the same status.
  virtual absl::Status Start(std::function<void(const absl::Status&)> on_failure) = 0;

  // Memory for a tensor that will cross `boundary` in `direction`: at least the columns of the
  // boundary times the largest number of rows. Waits until the lane has room at the receiver
  // (credits) and a buffer is free.
  // Errors: DeadlineExceeded  no room for `stall_limit`; names the peer and what it has not taken
  //         Cancelled         stopped
  //         others            the link's failure
  virtual absl::StatusOr<FloatBuffer> Reserve(uint32_t lane, uint32_t boundary,
                                              FlowDirection direction,
                                              absl::Duration stall_limit) = 0;

  // Sends the first rows * columns elements of a buffer that Reserve gave to this lane for this
  // boundary and direction. Returns at once; the caller must not write to it any more.
  virtual absl::Status Send(uint32_t lane, const FlowTag& tag, FlowShape shape,
                            FloatBuffer elements) = 0;

  // Waits for the tensor and takes it out of the mailbox: the sender gets its credit back. Letting
  // go of the buffer makes its memory free for another tensor.
  // Errors: DeadlineExceeded  nothing came for `stall_limit`; names the tensor and the peer
  //         InvalidArgument   it came with another shape than `shape`; names both sides
  //         Cancelled         stopped
  //         others            the link's failure
  virtual absl::StatusOr<FloatBuffer> Receive(uint32_t lane, const FlowTag& tag, FlowShape shape,
                                              absl::Duration stall_limit) = 0;

  // Wakes everyone who waits, now or later, with Cancelled, and ends the streams.
  virtual void Stop() = 0;

  // As Stop, because this worker's run has failed: who waits gets `reason`, and the neighbours'
  // links fail with it.
  virtual void Fail(const absl::Status& reason) = 0;

  // Ends the streams in order: waits at most for `deadline` until the neighbours have taken all
  // that was sent, and until those in front, which may still have much to compute, say that they
  // are done; Stop and Fail end the wait. No callback is under way or will come after it. Called by
  // the destructor with a deadline of 0 when it has not been called.
  virtual absl::Status Close(absl::Duration deadline) = 0;
};

// What a link must know.
struct PipelineLinkOptions {
  const v1::Plan* plan = nullptr;  // borrowed; outlives the link
  uint32_t worker = 0;             // index into plan.worker
  uint32_t lanes = 1;
  uint64_t max_rows = 0;  // samples of the largest micro-batch or chunk
  // Buffers that the lanes of this worker keep of each boundary after Receive, at most, by
  // direction all lanes together (what comes from the schedule).
  uint32_t kept = 1;
};

// Made before the worker reports READY, so that peers find it, until the link is destroyed; Start
// comes when all are ready.
using PipelineLinkFactory =
    std::function<absl::StatusOr<std::unique_ptr<PipelineLink>>(const PipelineLinkOptions&)>;

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_PIPELINE_LINK_H_
