#include "worker/runtime/gradient_outbox.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "proto/plan.pb.h"
#include "worker/core/gradient_merge.h"

namespace sangam {

size_t GradientOutbox::MaxBuffers(const v1::Plan& plan, ShareSpan worker_shares, uint32_t lanes) {
  // Being computed, waiting for a sibling, and with the link: the spans of one step, and those of
  // the step before, which the link may let go of a little after their answer has come.
  return lanes + GradientMerge::MaxNodes(worker_shares, plan.shares(), lanes) +
         2 * MaximalSpans(worker_shares, plan.shares()).size();
}

uint64_t GradientOutbox::MaxMemoryBytes(const v1::Plan& plan, ShareSpan worker_shares,
                                        uint32_t lanes) {
  uint64_t elements = 0;
  for (const v1::SegmentLayout& segment : plan.layout().segment()) {
    elements += segment.element_count();
  }
  return elements * sizeof(float) * MaxBuffers(plan, worker_shares, lanes);
}

absl::StatusOr<std::unique_ptr<GradientOutbox>> GradientOutbox::Create(const v1::Plan& plan,
                                                                       ShareSpan worker_shares,
                                                                       uint32_t lanes) {
  std::unique_ptr<GradientOutbox> outbox(new GradientOutbox);
  for (const v1::SegmentLayout& layout : plan.layout().segment()) {
    auto segment =
        std::make_unique<Segment>(layout.element_count(), MaxBuffers(plan, worker_shares, lanes),
                                  worker_shares, plan.shares());
    {
      MutexLock lock(&segment->mutex);
      std::vector<FloatBuffer> taken;
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        ASSIGN_OR_RETURN(FloatBuffer buffer, segment->pool.Take(), "gradients of block %d",
                         layout.block());
        taken.push_back(std::move(buffer));
      }
    }
    outbox->segments_.push_back(std::move(segment));
  }
  return outbox;
}

absl::StatusOr<FloatBuffer> GradientOutbox::Take(uint32_t segment) {
  Segment& entry = *segments_[segment];
  MutexLock lock(&entry.mutex);
  ASSIGN_OR_RETURN(FloatBuffer buffer, entry.pool.Take(), "gradients of segment %d", segment);
  return buffer;
}

absl::Status GradientOutbox::Emit(Gradient gradient, SegmentStore* store, ParameterLink* link) {
  std::optional<GradientMerge::Finished> finished;
  {
    // The sums are added under the lock: two lanes meet here only for the same segment, and one
    // addition is short beside the backward pass that led to it.
    Segment& entry = *segments_[gradient.segment];
    MutexLock lock(&entry.mutex);
    ASSIGN_OR_RETURN(finished, entry.merge.Add(gradient.share, std::move(gradient.sum)),
                     "gradient of segment %d at step %d", gradient.segment, gradient.step);
  }
  if (!finished.has_value()) return absl::OkStatus();
  // Every lane has passed its last backward of this segment, so its weights may be replaced; and
  // they cannot come before this span has been sent.
  if (finished->last) store->Expect(gradient.segment, gradient.step + 1);
  return link->PushGradient(gradient.step, gradient.segment, finished->span, finished->sum.samples,
                            finished->sum.values);
}

}  // namespace sangam
