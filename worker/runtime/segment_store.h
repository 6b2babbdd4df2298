#ifndef SANGAM_WORKER_RUNTIME_SEGMENT_STORE_H_
#define SANGAM_WORKER_RUNTIME_SEGMENT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/plan/page_map.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "worker/runtime/parameter_link.h"

namespace sangam {

// The weights that one worker computes with: one buffer for each segment that it needs, filled page
// by page by the link's thread. A segment is ready at a step when all of its pages have come.
//
// Weights are overwritten in place, so the store must know when nobody reads them any more: the
// trainer calls Expect(segment, t + 1) before it sends the last gradient of step t of any of the
// segment's pages, and no server can answer a page earlier. Weights of a step that nobody expects
// are an error of the sender. Thread-safe.
class SegmentStore : public WeightsReceiver {
 public:
  // Sets memory aside for `segments`, each of which is expected at `first_step`. The calls below
  // are for these segments only.
  // Errors: InvalidArgument    the plan's pages do not fit its layout, or it has no such segment
  //         ResourceExhausted  the memory cannot be had
  static absl::StatusOr<std::unique_ptr<SegmentStore>> Create(const v1::Plan& plan,
                                                              const std::vector<uint32_t>& segments,
                                                              uint64_t first_step);

  // Copies the page to its place, on the calling thread. Weights that are here already are ignored.
  // Errors: Aborted             another job or generation
  //         InvalidArgument     kind, encoding, range or length, or a segment that has no memory
  //                             here; names found and expected
  //         FailedPrecondition  a step that is not expected yet
  absl::Status OnWeights(const v1::FrameHeader& header, const SlicePayload& elements) override;

  // Everyone who waits, now or later, gets `status`.
  void OnLinkFailed(const absl::Status& status) override;

  // From now on the weights of `step` may come for `segment` and replace those that are here.
  // REQUIRES: the segment has memory here and is complete at step - 1, and nobody reads a page of
  // it after this worker's last gradient of the page was sent, before the next Await.
  void Expect(uint32_t segment, uint64_t step);

  // Waits until all pages of `segment` are those of `step`; its weights then. They stay unchanged
  // until Expect is called for the next step.
  // Errors: DeadlineExceeded  no page came for `stall_limit`; names segment, page, server and ages
  //         Cancelled         stopped
  //         Internal          a later step is expected already: the weights of `step` may be gone;
  //                           or a segment that has no memory here
  //         others            the link's failure
  absl::StatusOr<const float*> Await(uint32_t segment, uint64_t step, absl::Duration stall_limit);

  // Where the weights of `segment` are or will be; nullptr for one that has no memory here.
  const float* data(uint32_t segment) const { return weights_[segment].data(); }
  // The same as Await for the pages of elements [first, first + count), of which there may be
  // fewer: only they are those of `step` then.
  absl::Status AwaitPart(uint32_t segment, uint64_t step, uint64_t first, uint64_t count,
                         absl::Duration stall_limit);

  // Wakes everyone who waits, now or later, with Cancelled.
  void Stop();

  // The link's failure; OK when there is none.
  absl::Status link_failure() const;

  // 0 for a segment that has no memory here.
  uint64_t segment_elements(uint32_t segment) const { return weights_[segment].size(); }

 private:
  struct Segment {
    uint64_t expected = 0;      // step
    std::vector<bool> arrived;  // by page: here at `expected`
    size_t missing = 0;         // pages that are not
  };

  SegmentStore(const v1::Plan& plan, PageMap pages);
  bool Holds(uint32_t segment) const { return weights_[segment].size() > 0; }
  // The page that the frame is for.
  absl::StatusOr<PageRange> CheckHeader(const v1::FrameHeader& header, size_t payload_bytes) const;
  static bool Arrived(const Segment& segment, size_t first_page, size_t end_page);
  absl::Status Stalled(uint32_t index, uint64_t step, absl::Duration waited) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t job_;
  const uint64_t generation_;
  const PageMap pages_;
  std::vector<std::string> server_names_;  // "name (address)"
  std::vector<std::string> block_names_;   // by segment
  // By segment; empty for those that are not needed. The handles are constant after creation; who
  // touches the floats, the rule above says.
  std::vector<FloatBuffer> weights_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Segment> segments_ ABSL_GUARDED_BY(mutex_);
  // When the last page came, on the steady clock.
  absl::Duration last_news_ ABSL_GUARDED_BY(mutex_);
  size_t parts_awaited_ ABSL_GUARDED_BY(mutex_) = 0;  // calls that wait for a part of a segment
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_SEGMENT_STORE_H_
