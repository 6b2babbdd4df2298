#include "worker/runtime/gradient_outbox.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/plan/page_map.h"
#include "common/plan/pipeline_layout.h"
#include "common/plan/span.h"
#include "common/plan/worker_memory.h"
#include "common/tensor/buffer.h"
#include "proto/plan.pb.h"
#include "worker/core/gradient_merge.h"
#include "worker/core/page_progress.h"

namespace sangam {

absl::StatusOr<std::unique_ptr<GradientOutbox>> GradientOutbox::Create(const v1::Plan& plan,
                                                                       uint32_t worker,
                                                                       uint32_t lanes) {
  RETURN_IF_ERROR(CheckStages(plan));
  const v1::Span& shares = plan.worker(static_cast<int>(worker)).shares();
  const ShareSpan mine{shares.begin(), shares.end()};
  const uint64_t max_buffers = GradientBuffers(mine, plan.shares(), lanes);
  std::unique_ptr<GradientOutbox> outbox(new GradientOutbox);
  outbox->page_elements_ = plan.page_elements();
  const std::vector<ShareSpan> maximal = MaximalSpans(mine, plan.shares());
  if (maximal.size() == 1) outbox->whole_ = maximal.front();
  for (const ParameterUse& parameters : UsesOf(plan, worker)) {
    const v1::SegmentLayout& layout = plan.layout().segment(static_cast<int>(parameters.segment));
    Segment& segment = outbox->segments_[parameters.segment];
    Use& use = segment.uses
                   .emplace(std::piecewise_construct, std::forward_as_tuple(parameters.use),
                            std::forward_as_tuple(layout.element_count(), max_buffers, mine,
                                                  plan.shares()))
                   .first->second;
    {
      MutexLock lock(&segment.mutex);
      segment.missing = segment.uses.size();
    }
    MutexLock lock(&use.mutex);
    std::vector<FloatBuffer> taken;
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      ASSIGN_OR_RETURN(FloatBuffer buffer, use.pool.Take(), "gradients of block %d",
                       parameters.block);
      taken.push_back(std::move(buffer));
    }
  }
  return outbox;
}

absl::StatusOr<GradientOutbox::Use*> GradientOutbox::Find(uint32_t segment, uint32_t use) {
  const auto entry = segments_.find(segment);
  if (entry != segments_.end()) {
    const auto found = entry->second.uses.find(use);
    if (found != entry->second.uses.end()) return &found->second;
  }
  return absl::InvalidArgumentError(absl::StrCat("gradient of segment ", segment, ", use ", use,
                                                 ": expected one of this worker's blocks"));
}

absl::StatusOr<FloatBuffer> GradientOutbox::Take(uint32_t segment, uint32_t use) {
  ASSIGN_OR_RETURN(Use* const entry, Find(segment, use));
  MutexLock lock(&entry->mutex);
  ASSIGN_OR_RETURN(FloatBuffer buffer, entry->pool.Take(), "gradients of segment %d, use %d",
                   segment, use);
  return buffer;
}

bool GradientOutbox::EndUse(Segment* segment) {
  MutexLock lock(&segment->mutex);
  if (--segment->missing > 0) return false;
  segment->missing = segment->uses.size();
  return true;
}

absl::StatusOr<bool> GradientOutbox::BeginParts(const Gradient& gradient, SegmentStore* store) {
  ASSIGN_OR_RETURN(Use* const use, Find(gradient.segment, gradient.use));
  if (segments_.at(gradient.segment).uses.size() > 1 || whole_ != gradient.span()) return false;
  {
    MutexLock lock(&use->mutex);
    use->parts.emplace(store->segment_elements(gradient.segment), page_elements_);
  }
  store->Expect(gradient.segment, gradient.step + 1);
  return true;
}

absl::Status GradientOutbox::EmitPart(const Gradient& gradient, uint64_t first, uint64_t count,
                                      ParameterLink* link) {
  ASSIGN_OR_RETURN(Use* const use, Find(gradient.segment, gradient.use));
  PageSpan pages;
  {
    MutexLock lock(&use->mutex);
    if (!use->parts.has_value()) {
      return absl::FailedPreconditionError("a part of a gradient whose parts were not begun");
    }
    ASSIGN_OR_RETURN(pages, use->parts->Add(first, count), "gradient of segment %d at step %d",
                     gradient.segment, gradient.step);
  }
  if (pages.empty()) return absl::OkStatus();
  return Push(gradient, pages, link);
}

absl::Status GradientOutbox::Push(const Gradient& gradient, PageSpan pages, ParameterLink* link) {
  return link->PushPages(gradient.step, gradient.segment, gradient.use, gradient.span(),
                         gradient.sum.samples, gradient.sum.values, pages);
}

absl::Status GradientOutbox::Emit(Gradient gradient, SegmentStore* store, ParameterLink* link) {
  ASSIGN_OR_RETURN(Use* const use, Find(gradient.segment, gradient.use));
  std::optional<PageProgress> parts;
  {
    MutexLock lock(&use->mutex);
    parts.swap(use->parts);
  }
  if (parts.has_value()) {
    for (const PageSpan pages : parts->Rest()) RETURN_IF_ERROR(Push(gradient, pages, link));
    return absl::OkStatus();
  }
  std::optional<GradientMerge::Finished> finished;
  {
    // The sums are added under the lock: two lanes meet here only for the same use, and one
    // addition is short beside the backward pass that led to it.
    MutexLock lock(&use->mutex);
    ASSIGN_OR_RETURN(finished, use->merge.Add(gradient.span(), std::move(gradient.sum)),
                     "gradient of segment %d, use %d at step %d", gradient.segment, gradient.use,
                     gradient.step);
  }
  if (!finished.has_value()) return absl::OkStatus();
  // Once the last of the uses is here, every lane has passed its last backward of this segment, so
  // its weights may be replaced; and they cannot come before this span has been sent.
  if (finished->last && EndUse(&segments_.at(gradient.segment))) {
    store->Expect(gradient.segment, gradient.step + 1);
  }
  return link->PushGradient(gradient.step, gradient.segment, gradient.use, finished->span,
                            finished->sum.samples, finished->sum.values);
}

}  // namespace sangam
