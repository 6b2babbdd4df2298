#include "tests/testing/fake_parameter_link.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/model/initializer.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"

namespace sangam::testing {
namespace {

// Pieces of a length that no float boundary respects, as a network may deliver them.
constexpr size_t kPieceBytes = 1001;

SlicePayload InPieces(const std::vector<float>& weights) {
  auto copy = std::make_shared<std::vector<float>>(weights);
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(copy->data());
  const size_t size = copy->size() * sizeof(float);
  std::vector<ByteSpan> pieces;
  for (size_t at = 0; at < size; at += kPieceBytes) {
    pieces.push_back({bytes + at, std::min(kPieceBytes, size - at)});
  }
  return SlicePayload(std::move(pieces), std::move(copy));
}

}  // namespace

// One worker's line to the server; delivers weights on a thread of its own.
class FakeParameterLink : public ParameterLink {
 public:
  FakeParameterLink(FakeParameterServer* server, uint32_t worker)
      : server_(server), worker_(worker) {}
  ~FakeParameterLink() override { Close(absl::ZeroDuration()).IgnoreError(); }

  absl::Status Start(const std::vector<uint32_t>& segments, uint64_t,
                     WeightsReceiver* receiver) override {
    segments_ = segments;
    receiver_ = receiver;
    thread_ = std::thread([this] { Work(); });
    server_->Attach(this);
    return absl::OkStatus();
  }

  absl::Status PushPages(uint64_t step, uint32_t segment, uint32_t use, ShareSpan span,
                         uint64_t samples, const FloatBuffer& sum, PageSpan pages) override {
    {
      MutexLock lock(&mutex_);
      if (closed_ || !failure_.ok()) return absl::FailedPreconditionError("the link has ended");
      unanswered_.push_back({step, segment, sum});
    }
    return server_->Add({worker_, step, segment, span, samples, use}, sum, pages);
  }

  absl::Status Close(absl::Duration) override {
    server_->Detach(this);
    {
      MutexLock lock(&mutex_);
      closed_ = true;
      changed_.SignalAll();
    }
    if (thread_.joinable()) thread_.join();
    return absl::OkStatus();
  }

  // Only what the link was started for is delivered.
  bool Subscribes(uint32_t segment) const {
    return std::find(segments_.begin(), segments_.end(), segment) != segments_.end();
  }
  void Deliver(const v1::FrameHeader& header, SlicePayload elements) {
    MutexLock lock(&mutex_);
    queue_.push_back({header, std::move(elements)});
    changed_.SignalAll();
  }
  void Fail(const absl::Status& status) {
    MutexLock lock(&mutex_);
    failure_ = status;
    changed_.SignalAll();
  }

 private:
  struct Frame {
    v1::FrameHeader header;
    SlicePayload elements;
  };
  struct Unanswered {
    uint64_t step;
    uint32_t segment;
    FloatBuffer sum;
  };

  void Work() {
    for (;;) {
      Frame frame;
      absl::Status failure;
      {
        MutexLock lock(&mutex_);
        while (queue_.empty() && !closed_ && failure_.ok()) {
          changed_.WaitFor(&mutex_, absl::Seconds(1));
        }
        failure = failure_;
        if (closed_ && failure.ok()) return;
        if (failure.ok()) {
          frame = std::move(queue_.front());
          queue_.pop_front();
        }
      }
      if (failure.ok()) failure = receiver_->OnWeights(frame.header, frame.elements);
      if (!failure.ok()) {
        Fail(failure);
        receiver_->OnLinkFailed(failure);
        return;
      }
      LetGo(frame.header);
    }
  }

  // As the contract says: a gradient is held until its segment's weights have been handed over.
  void LetGo(const v1::FrameHeader& header) {
    MutexLock lock(&mutex_);
    if (++answered_[{header.segment(), header.step()}] < server_->NumPages(header.segment())) {
      return;
    }
    unanswered_.erase(std::remove_if(unanswered_.begin(), unanswered_.end(),
                                     [&header](const Unanswered& entry) {
                                       return entry.segment == header.segment() &&
                                              entry.step < header.step();
                                     }),
                      unanswered_.end());
  }

  FakeParameterServer* const server_;
  const uint32_t worker_;
  std::vector<uint32_t> segments_;  // does not change after Start
  WeightsReceiver* receiver_ = nullptr;
  std::thread thread_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Frame> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<Unanswered> unanswered_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> answered_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<FakeParameterServer::Gradient> FakeParameterServer::AddRight::operator()(
    Gradient left, Gradient right) const {
  for (size_t e = 0; e < left.sum.size(); ++e) left.sum[e] += right.sum[e];
  left.samples += right.samples;
  return left;
}

namespace {

// ParameterLayout.average_rate of each element of the range.
std::vector<float> AverageRates(const v1::SegmentLayout& segment, const PageRange& range) {
  std::vector<float> rates(segment.element_count(), 0.0f);
  for (const v1::ParameterLayout& parameter : segment.parameter()) {
    std::fill_n(rates.begin() + static_cast<ptrdiff_t>(parameter.offset()),
                parameter.element_count(), parameter.average_rate());
  }
  const auto first = rates.begin() + static_cast<ptrdiff_t>(range.first_element);
  return {first, first + static_cast<ptrdiff_t>(range.element_count)};
}

}  // namespace

FakeParameterServer::FakeParameterServer(const v1::JobSpec& spec, const v1::Plan& plan)
    : spec_(spec), plan_(plan) {
  const auto map = PageMap::Create(plan);
  SANGAM_CHECK(map.ok() && spec.optimizer().has_sgd());
  MutexLock lock(&mutex_);
  for (uint32_t s = 0; s < map->num_segments(); ++s) {
    pages_.emplace_back();
    for (const PageRange& range : map->pages(s)) {
      Page page;
      page.range = range;
      page.weights.resize(range.element_count);
      FillInitialWeights(plan.layout().segment(static_cast<int>(s)), spec.seed(),
                         range.first_element, range.element_count, page.weights.data());
      page.average_rates = AverageRates(plan.layout().segment(static_cast<int>(s)), range);
      const int uses = std::max(1, plan.layout().segment(static_cast<int>(s)).use_size());
      for (int use = 0; use < uses; ++use) page.trees.emplace_back(plan.shares(), AddRight());
      pages_.back().push_back(std::move(page));
    }
  }
}

FakeParameterServer::~FakeParameterServer() = default;

uint64_t FakeParameterServer::NumPages(uint32_t segment) const {
  return plan_.segment_pages(static_cast<int>(segment)).server_size();
}

ParameterLinkFactory FakeParameterServer::Factory() {
  return
      [this](const v1::Plan&, uint32_t worker) -> absl::StatusOr<std::unique_ptr<ParameterLink>> {
        return std::make_unique<FakeParameterLink>(this, worker);
      };
}

void FakeParameterServer::FailAt(uint64_t step, const absl::Status& status) {
  MutexLock lock(&mutex_);
  fail_at_ = step;
  failure_ = status;
}

void FakeParameterServer::HoldBack(uint64_t step) {
  MutexLock lock(&mutex_);
  hold_back_ = step;
}

void FakeParameterServer::Release() {
  MutexLock lock(&mutex_);
  const std::optional<uint64_t> held = std::exchange(hold_back_, std::nullopt);
  if (!held.has_value()) return;
  for (const std::vector<Page>& pages : pages_) {
    for (const Page& page : pages) {
      for (FakeParameterLink* link : links_) {
        if (page.step >= *held) Send(page, link);
      }
    }
  }
}

void FakeParameterServer::Attach(FakeParameterLink* link) {
  MutexLock lock(&mutex_);
  links_.push_back(link);
  for (const std::vector<Page>& pages : pages_) {
    for (const Page& page : pages) Send(page, link);
  }
}

void FakeParameterServer::Detach(FakeParameterLink* link) {
  MutexLock lock(&mutex_);
  links_.erase(std::remove(links_.begin(), links_.end(), link), links_.end());
}

void FakeParameterServer::Send(const Page& page, FakeParameterLink* link) {
  if (hold_back_.has_value() && page.step >= *hold_back_) return;
  if (!link->Subscribes(page.range.segment)) return;
  v1::FrameHeader header;
  header.set_job(plan_.job());
  header.set_generation(plan_.generation());
  header.set_kind(v1::FRAME_KIND_WEIGHTS);
  header.set_encoding(v1::ENCODING_FP32);
  header.set_step(page.step);
  header.set_segment(page.range.segment);
  header.set_first_element(page.range.first_element);
  header.set_element_count(page.range.element_count);
  link->Deliver(header, InPieces(page.weights));
}

absl::Status FakeParameterServer::Add(const Push& push, const FloatBuffer& sum, PageSpan span) {
  MutexLock lock(&mutex_);
  std::vector<Page>& pages = pages_[push.segment];
  if (span == kAllPages) span.end = static_cast<uint32_t>(pages.size());
  if (span.empty() || span.end > pages.size()) {
    return absl::InvalidArgumentError("pages that the segment does not have");
  }
  // A gradient that comes in parts is noted when it is whole.
  uint64_t& came = came_[{push.worker, push.step, push.segment, push.use, push.span.begin}];
  came += span.end - span.begin;
  if (came == pages.size()) pushes_.push_back(push);
  changed_.SignalAll();
  if (fail_at_.has_value() && push.step >= *fail_at_) {
    for (FakeParameterLink* link : links_) link->Fail(failure_);
    return absl::FailedPreconditionError("the link has failed");
  }
  if (sum.size() != plan_.layout().segment(static_cast<int>(push.segment)).element_count()) {
    return absl::InvalidArgumentError("the gradient has another length than its segment");
  }
  for (uint32_t p = span.begin; p < span.end; ++p) {
    Page& page = pages[p];
    if (push.step != page.step) {
      return absl::FailedPreconditionError(
          absl::StrCat("a gradient of step ", push.step, " for a page at step ", page.step));
    }
    if (push.use >= page.trees.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("use ", push.use, " of a segment that has ", page.trees.size()));
    }
    const float* first = sum.data() + page.range.first_element;
    Gradient gradient{{first, first + page.range.element_count}, push.samples};
    ASSIGN_OR_RETURN(const auto result, page.trees[push.use].Add(push.span, std::move(gradient)));
    if (result != SpanTree<Gradient, AddRight>::Result::kAdded) {
      return absl::AlreadyExistsError("a span came twice");
    }
    RETURN_IF_ERROR(UpdateIfComplete(&page));
  }
  return absl::OkStatus();
}

absl::Status FakeParameterServer::UpdateIfComplete(Page* page) {
  for (const auto& tree : page->trees) {
    if (!tree.Covers({0, tree.shares()})) return absl::OkStatus();
  }
  Gradient total = *page->trees[0].TakeRoot();
  for (size_t use = 1; use < page->trees.size(); ++use) {
    const Gradient other = *page->trees[use].TakeRoot();
    if (other.samples != total.samples) {
      return absl::InvalidArgumentError("uses of one segment differ in samples");
    }
    for (size_t e = 0; e < total.sum.size(); ++e) total.sum[e] += other.sum[e];
  }
  for (size_t e = 0; e < page->weights.size(); ++e) {
    const float mean = total.sum[e] / static_cast<float>(total.samples);
    const float rate = page->average_rates[e];
    float& weight = page->weights[e];
    if (rate == 0) {
      weight -= spec_.optimizer().learning_rate() * mean;
    } else {
      weight = (1 - rate) * weight + rate * mean;
    }
  }
  ++page->step;
  for (FakeParameterLink* link : links_) Send(*page, link);
  return absl::OkStatus();
}

bool FakeParameterServer::AwaitPushOf(uint64_t step) {
  MutexLock lock(&mutex_);
  for (int tries = 0; tries < 600; ++tries) {
    for (const Push& push : pushes_) {
      if (push.step >= step) return true;
    }
    changed_.WaitFor(&mutex_, absl::Milliseconds(100));
  }
  return false;
}

std::vector<FakeParameterServer::Push> FakeParameterServer::pushes() const {
  MutexLock lock(&mutex_);
  return pushes_;
}

std::vector<std::vector<float>> FakeParameterServer::weights() const {
  MutexLock lock(&mutex_);
  std::vector<std::vector<float>> weights;
  for (const std::vector<Page>& pages : pages_) {
    weights.emplace_back();
    for (const Page& page : pages) {
      weights.back().insert(weights.back().end(), page.weights.begin(), page.weights.end());
    }
  }
  return weights;
}

}  // namespace sangam::testing
