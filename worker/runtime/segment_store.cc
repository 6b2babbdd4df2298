#include "worker/runtime/segment_store.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/plan/page_map.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"

namespace sangam {

SegmentStore::SegmentStore(const v1::Plan& plan, PageMap pages)
    : job_(plan.job()), generation_(plan.generation()), pages_(std::move(pages)) {
  for (const v1::ServerPlan& server : plan.server()) {
    server_names_.push_back(absl::StrCat(server.name(), " (", server.address(), ")"));
  }
}

absl::StatusOr<std::unique_ptr<SegmentStore>> SegmentStore::Create(
    const v1::Plan& plan, const std::vector<uint32_t>& segments, uint64_t first_step) {
  ASSIGN_OR_RETURN(PageMap pages, PageMap::Create(plan));
  std::unique_ptr<SegmentStore> store(new SegmentStore(plan, std::move(pages)));
  MutexLock lock(&store->mutex_);
  store->last_news_ = Clock::Real().Steady();
  for (uint32_t s = 0; s < store->pages_.num_segments(); ++s) {
    const v1::SegmentLayout& layout = plan.layout().segment(static_cast<int>(s));
    if (layout.block() >= static_cast<uint32_t>(plan.layout().block_size())) {
      return absl::InvalidArgumentError(absl::StrCat("plan.layout.segment[", s, "].block: found ",
                                                     layout.block(), ", expected less than ",
                                                     plan.layout().block_size()));
    }
    store->block_names_.push_back(plan.layout().block(static_cast<int>(layout.block())).name());
    Segment segment;
    segment.expected = first_step;
    segment.missing = store->pages_.pages(s).size();
    segment.arrived.assign(segment.missing, false);
    store->segments_.push_back(std::move(segment));
  }
  store->weights_.resize(store->segments_.size());
  for (const uint32_t s : segments) {
    if (s >= store->pages_.num_segments()) {
      return absl::InvalidArgumentError(absl::StrCat("segment: found ", s, ", expected less than ",
                                                     store->pages_.num_segments()));
    }
    const uint64_t elements = plan.layout().segment(static_cast<int>(s)).element_count();
    ASSIGN_OR_RETURN(store->weights_[s], FloatBuffer::Allocate(elements), "weights of block \"%s\"",
                     store->block_names_[s]);
  }
  return store;
}

absl::StatusOr<PageRange> SegmentStore::CheckHeader(const v1::FrameHeader& header,
                                                    size_t payload_bytes) const {
  if (header.job() != job_ || header.generation() != generation_) {
    return absl::AbortedError(absl::StrCat("weights frame: found job ", header.job(),
                                           " generation ", header.generation(), ", expected job ",
                                           job_, " generation ", generation_));
  }
  if (header.kind() != v1::FRAME_KIND_WEIGHTS) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame kind: found ", header.kind(), ", expected WEIGHTS"));
  }
  if (header.encoding() != v1::ENCODING_FP32) {
    return absl::InvalidArgumentError(
        absl::StrCat("encoding of a weights frame: found ", header.encoding(), ", expected FP32"));
  }
  ASSIGN_OR_RETURN(const uint32_t page, pages_.PageAt(header.segment(), header.first_element()),
                   "weights frame");
  if (!Holds(header.segment())) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights frame: found segment ", header.segment(), " (block \"",
                     block_names_[header.segment()], "\"), expected one that this worker needs"));
  }
  const PageRange& range = pages_.pages(header.segment())[page];
  if (header.element_count() != range.element_count ||
      payload_bytes != range.element_count * sizeof(float)) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights frame for page ", page, " of segment ", header.segment(), ": found ",
                     header.element_count(), " elements in ", payload_bytes, " bytes, expected ",
                     range.element_count, " in ", range.element_count * sizeof(float)));
  }
  return range;
}

absl::Status SegmentStore::OnWeights(const v1::FrameHeader& header, const SlicePayload& elements) {
  ASSIGN_OR_RETURN(const PageRange range, CheckHeader(header, elements.size()));
  const size_t page = range.first_element / pages_.page_elements();
  {
    MutexLock lock(&mutex_);
    const Segment& segment = segments_[range.segment];
    if (header.step() > segment.expected) {
      return absl::FailedPreconditionError(absl::StrCat(
          "weights frame for page ", page, " of segment ", range.segment, ": found step ",
          header.step(), ", expected ", segment.expected, ", whose weights are still needed"));
    }
    if (header.step() < segment.expected || segment.arrived[page]) return absl::OkStatus();
  }
  // Without the lock: nobody reads a page that has not arrived, and the link makes one call at a
  // time.
  elements.CopyTo(weights_[range.segment].data() + range.first_element);
  MutexLock lock(&mutex_);
  Segment& segment = segments_[range.segment];
  segment.arrived[page] = true;
  last_news_ = Clock::Real().Steady();
  --segment.missing;
  if (segment.missing == 0 || parts_awaited_ > 0) changed_.SignalAll();
  return absl::OkStatus();
}

void SegmentStore::OnLinkFailed(const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (failure_.ok()) failure_ = status;
  changed_.SignalAll();
}

void SegmentStore::Expect(uint32_t segment, uint64_t step) {
  MutexLock lock(&mutex_);
  Segment& entry = segments_[segment];
  SANGAM_CHECK(Holds(segment) && entry.missing == 0 && entry.expected + 1 == step);
  entry.expected = step;
  entry.missing = entry.arrived.size();
  std::fill(entry.arrived.begin(), entry.arrived.end(), false);
}

absl::StatusOr<const float*> SegmentStore::Await(uint32_t segment, uint64_t step,
                                                 absl::Duration stall_limit) {
  RETURN_IF_ERROR(AwaitPart(segment, step, 0, std::numeric_limits<uint64_t>::max(), stall_limit));
  return weights_[segment].data();
}

bool SegmentStore::Arrived(const Segment& segment, size_t first_page, size_t end_page) {
  if (segment.missing == 0) return true;
  const auto first = segment.arrived.begin() + static_cast<ptrdiff_t>(first_page);
  const auto end = segment.arrived.begin() + static_cast<ptrdiff_t>(end_page);
  return std::find(first, end, false) == end;
}

absl::Status SegmentStore::AwaitPart(uint32_t segment, uint64_t step, uint64_t first,
                                     uint64_t count, absl::Duration stall_limit) {
  if (!Holds(segment)) {
    return absl::InternalError(absl::StrCat("weights of segment ", segment,
                                            " asked for, which this worker does not hold"));
  }
  const uint64_t elements = weights_[segment].size();
  first = std::min(first, elements);
  count = std::min(count, elements - first);
  if (count == 0) return absl::OkStatus();
  const size_t first_page = first / pages_.page_elements();
  const size_t end_page = (first + count - 1) / pages_.page_elements() + 1;
  const absl::Duration start = Clock::Real().Steady();
  MutexLock lock(&mutex_);
  for (;;) {
    const Segment& entry = segments_[segment];
    if (stopped_) return absl::CancelledError("stopped while waiting for weights");
    if (entry.expected == step && Arrived(entry, first_page, end_page)) return absl::OkStatus();
    if (entry.expected > step) {
      return absl::InternalError(absl::StrCat("weights of step ", step, " of segment ", segment,
                                              " asked for when step ", entry.expected,
                                              " was expected"));
    }
    if (!failure_.ok()) return failure_;
    const absl::Duration now = Clock::Real().Steady();
    const absl::Duration left = std::max(start, last_news_) + stall_limit - now;
    if (left <= absl::ZeroDuration()) return Stalled(segment, step, now - start);
    const size_t parts = end_page - first_page < entry.arrived.size() ? 1 : 0;
    parts_awaited_ += parts;
    changed_.WaitFor(&mutex_, left);
    parts_awaited_ -= parts;
  }
}

absl::Status SegmentStore::Stalled(uint32_t index, uint64_t step, absl::Duration waited) const {
  const Segment& segment = segments_[index];
  const absl::Duration news = Clock::Real().Steady() - last_news_;
  std::string what = "the gradients of this worker's other lanes";
  if (segment.expected == step) {
    const size_t page = static_cast<size_t>(
        std::find(segment.arrived.begin(), segment.arrived.end(), false) - segment.arrived.begin());
    what = absl::StrCat("page ", page, " from server ",
                        server_names_[pages_.pages(index)[page].server], " (", segment.missing,
                        " of ", segment.arrived.size(), " pages are missing)");
  }
  return absl::DeadlineExceededError(
      absl::StrCat("waited ", absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1))),
                   " for the weights of step ", step, " of segment ", index, " (block \"",
                   block_names_[index], "\"): lacks ", what, "; the last page of any segment came ",
                   absl::FormatDuration(absl::Trunc(news, absl::Milliseconds(1))), " ago"));
}

void SegmentStore::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  changed_.SignalAll();
}

absl::Status SegmentStore::link_failure() const {
  MutexLock lock(&mutex_);
  return failure_;
}

}  // namespace sangam
