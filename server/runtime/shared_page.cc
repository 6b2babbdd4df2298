#include "server/runtime/shared_page.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/metrics/counters.h"
#include "common/model/learning_rate.h"
#include "common/tensor/slices.h"
#include "proto/parameter_service.pb.h"
#include "proto/tensor.pb.h"
#include "server/core/parameter_page.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {

template <typename Change>
absl::StatusOr<SharedPage::Vote> SharedPage::Do(const Change& change) {
  Vote vote;
  std::pair<std::optional<PageState>, TakeSnapshot> snapshot;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(ParameterPage::Effects effects, change(page_));
    if (!effects.publish.has_value()) return std::move(effects.vote);
    vote = std::move(effects.vote);
    snapshot = DueSnapshot();
  }
  if (snapshot.first.has_value()) snapshot.second(*std::move(snapshot.first));
  Deliver();
  return vote;
}

absl::StatusOr<SharedPage::Vote> SharedPage::Add(const GradientKey& key, SlicePayload elements) {
  return Do([&](ParameterPage& page) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const bool awaited = key.step == page.current().step;
    absl::StatusOr<ParameterPage::Effects> effects = page.Add(key, std::move(elements));
    if (awaited && effects.ok()) {
      NoteArrival(effects->publish.has_value() || effects->vote.has_value());
    }
    return effects;
  });
}

void SharedPage::NoteArrival(bool complete) {
  const bool first = !first_arrival_.has_value();
  if (!first && !complete) return;
  const absl::Duration now = Clock::Real().Steady();
  if (first) first_arrival_ = now;
  if (!complete) return;
  ProcessCounters().AddAggregationWait(
      static_cast<uint64_t>(absl::ToInt64Microseconds(now - *first_arrival_)));
  first_arrival_.reset();
}

absl::StatusOr<SharedPage::Vote> SharedPage::Decide(const v1::StepDecision& decision) {
  return Do([&](ParameterPage& page) { return page.Decide(decision); });
}

absl::StatusOr<SharedPage::Vote> SharedPage::Begin(const LearningRate& rate) {
  return Do([&](ParameterPage& page) { return page.Begin(rate); });
}

absl::Status SharedPage::Subscribe(uint64_t generation, uint64_t lowest_step,
                                   const std::shared_ptr<WeightsSink>& sink) {
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckGeneration(generation, page_.generation()));
    for (const Subscription& subscription : subscriptions_) {
      if (subscription.sink == sink) return absl::OkStatus();
    }
    subscriptions_.push_back({sink, lowest_step});
  }
  Deliver();
  return absl::OkStatus();
}

void SharedPage::Unsubscribe(const WeightsSink* sink) {
  // The last handle of a sink must not end under the lock: its destructor is not ours.
  std::vector<Subscription> removed;
  MutexLock lock(&mutex_);
  const auto first = std::stable_partition(
      subscriptions_.begin(), subscriptions_.end(),
      [sink](const Subscription& subscription) { return subscription.sink.get() != sink; });
  removed.assign(std::make_move_iterator(first), std::make_move_iterator(subscriptions_.end()));
  subscriptions_.erase(first, subscriptions_.end());
}

void SharedPage::UnsubscribeAll() {
  std::vector<Subscription> removed;
  MutexLock lock(&mutex_);
  removed.swap(subscriptions_);
}

void SharedPage::WantSnapshots(std::vector<uint64_t> steps, TakeSnapshot take) {
  std::pair<std::optional<PageState>, TakeSnapshot> snapshot;
  {
    MutexLock lock(&mutex_);
    snapshot_steps_ = std::move(steps);
    take_snapshot_ = std::move(take);
    snapshot = DueSnapshot();
  }
  if (snapshot.first.has_value()) snapshot.second(*std::move(snapshot.first));
}

std::pair<std::optional<PageState>, SharedPage::TakeSnapshot> SharedPage::DueSnapshot() {
  const auto due = std::find(snapshot_steps_.begin(), snapshot_steps_.end(), page_.current().step);
  if (due == snapshot_steps_.end()) return {};
  std::optional<PageState> state = page_.Snapshot();
  if (!state.has_value()) return {};
  snapshot_steps_.erase(due);
  return {std::move(state), take_snapshot_};
}

PageWeights SharedPage::Read() const {
  MutexLock lock(&mutex_);
  return Weights(page_.current());
}

void SharedPage::Reduce() {
  MutexLock lock(&mutex_);
  page_.Reduce();
}

std::vector<ParameterPage::Vote> SharedPage::Votes() const {
  MutexLock lock(&mutex_);
  return page_.Votes();
}

uint64_t SharedPage::generation() const {
  MutexLock lock(&mutex_);
  return page_.generation();
}

ParameterPage::Ignored SharedPage::ignored() const {
  MutexLock lock(&mutex_);
  return page_.ignored();
}

PageWeights SharedPage::Weights(const PageVersion& version) const {
  const ParameterPage::Options& page = page_.options();
  PageWeights weights;
  weights.header.set_job(job_);
  weights.header.set_generation(page.generation);
  weights.header.set_step(version.step);
  weights.header.set_segment(page.segment);
  weights.header.set_first_element(page.first_element);
  weights.header.set_element_count(page.element_count);
  weights.header.set_encoding(v1::ENCODING_FP32);
  weights.header.set_kind(v1::FRAME_KIND_WEIGHTS);
  weights.elements = SlicePayload::FromFloats(version.weights, 0, page.element_count);
  return weights;
}

std::vector<SharedPage::Delivery> SharedPage::TakeDue(bool sending) {
  MutexLock lock(&mutex_);
  if (sending_ && !sending) return {};
  std::vector<std::shared_ptr<WeightsSink>> older;
  std::vector<std::shared_ptr<WeightsSink>> newest;
  const std::optional<PageVersion>& previous = page_.previous();
  const PageVersion& current = page_.current();
  for (Subscription& subscription : subscriptions_) {
    if (previous.has_value() && previous->step == subscription.next_step) {
      older.push_back(subscription.sink);
      subscription.next_step = previous->step + 1;
    } else if (subscription.next_step <= current.step) {
      newest.push_back(subscription.sink);
      subscription.next_step = current.step + 1;
    }
  }
  std::vector<Delivery> due;
  if (!older.empty()) due.push_back({Weights(*previous), std::move(older)});
  if (!newest.empty()) due.push_back({Weights(current), std::move(newest)});
  sending_ = !due.empty();
  return due;
}

void SharedPage::Deliver() {
  std::vector<Delivery> due = TakeDue(false);
  while (!due.empty()) {
    for (const Delivery& delivery : due) {
      for (const std::shared_ptr<WeightsSink>& sink : delivery.sinks) sink->Send(delivery.weights);
    }
    due = TakeDue(true);
  }
}

}  // namespace sangam
