#include "server/core/checkpoint_policy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/plan/server_memory.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

// Servers may be this many steps ahead of the last loss that has been reported.
constexpr uint64_t kAhead = 2;
// Time for the request to reach every server.
constexpr double kDeliverySeconds = 0.1;
constexpr uint64_t kMaxMissedFactor = 1024;

}  // namespace

CheckpointPolicy::CheckpointPolicy(const v1::CheckpointSpec& spec, Run run, absl::Duration now)
    : spec_(spec),
      run_(std::move(run)),
      copies_(run_.asked ? SnapshotsAtOnce(spec_) : 0),
      began_(now),
      steps_at_begin_(std::max(run_.first_step, run_.under_way.value_or(0))),
      steps_done_(steps_at_begin_),
      last_(now) {
  if (run_.under_way.has_value() || !run_.asked) return;
  // Training has not begun: every step after the first can be asked for.
  WantMultiples(run_.first_step + 1);
}

std::vector<uint64_t> CheckpointPolicy::Wanted() const {
  std::vector<uint64_t> steps;
  for (const auto& [step, pending] : pending_) steps.push_back(step);
  return steps;
}

double CheckpointPolicy::StepsUnderWay(absl::Duration now) const {
  const auto rate_since = [&](absl::Duration since, uint64_t from) {
    const double seconds = absl::ToDoubleSeconds(now - since);
    return seconds > 0 ? static_cast<double>(steps_done_ - from) / seconds : 0;
  };
  double rate = rate_since(began_, steps_at_begin_);
  // What nobody heard meanwhile is in the one, the other may be of a few steps alone.
  if (live_since_.has_value()) rate = std::min(rate, rate_since(*live_since_, live_from_));
  return std::min(rate * kDeliverySeconds, 1e9);
}

uint64_t CheckpointPolicy::Margin(absl::Duration now) const {
  return (kAhead + static_cast<uint64_t>(std::ceil(StepsUnderWay(now)))) * missed_factor_;
}

void CheckpointPolicy::Advance(uint64_t steps_done, absl::Duration now) {
  steps_done_ = std::max(steps_done_, steps_done);
  if (finished_.has_value()) {
    GiveUpMissed(now);
    WantLast(now);
    return;
  }
  if (!Settled(now)) return;
  GiveUpMissed(now);
  if (steps_done_ >= run_.steps_total) return;
  if (stopping_) {
    WantStop(now);
    return;
  }
  if (!run_.asked) return;
  const uint64_t from = steps_done_ + Margin(now);
  WantMultiples(from);
  WantTimed(from, now);
}

bool CheckpointPolicy::Settled(absl::Duration now) {
  if (!run_.under_way.has_value()) return true;
  if (!progressed_.has_value() && steps_done_ > steps_at_begin_) progressed_ = now;
  // What nobody heard meanwhile has come by then; it says nothing about how fast the job is.
  if (!live_since_.has_value() && progressed_.has_value() && now - *progressed_ >= kSettling / 2) {
    live_since_ = now;
    live_from_ = steps_done_;
  }
  return progressed_.has_value() && now - *progressed_ >= kSettling;
}

void CheckpointPolicy::GiveUpMissed(absl::Duration now) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    Pending& pending = it->second;
    const bool open = !pending.writing && !Complete(pending);
    const bool last = it->first == run_.steps_total;
    if (open && steps_done_ > it->first && !pending.passed.has_value()) pending.passed = now;
    if (open && pending.passed.has_value() &&
        now - *pending.passed >= (last ? kLastPatience : kPatience)) {
      missed_factor_ = std::min(missed_factor_ * 2, kMaxMissedFactor);
      missed_last_ = missed_last_ || last;
      if (stop_step_ == it->first) stop_step_.reset();
      it = pending_.erase(it);
    } else {
      ++it;
    }
  }
}

void CheckpointPolicy::WantMultiples(uint64_t from) {
  const uint64_t every = spec_.every_steps();
  if (every == 0) return;
  // Room for a step that the time asks for.
  const size_t most = spec_.every_seconds() > 0 ? 1 : kMaxWanted;
  while (pending_.size() < most) {
    const uint64_t lowest = std::max(from, next_multiple_);
    const uint64_t skipped = (lowest - 1) / every;  // multiples below `lowest`; it is at least 1
    if (skipped >= run_.steps_total / every + 1) return;
    const uint64_t multiple = (skipped + 1) * every;
    if (multiple >= run_.steps_total) return;
    next_multiple_ = multiple + 1;
    pending_[multiple];
  }
}

void CheckpointPolicy::WantTimed(uint64_t from, absl::Duration now) {
  if (!(spec_.every_seconds() > 0) || now - last_ < absl::Seconds(spec_.every_seconds())) return;
  const bool timed = std::any_of(pending_.begin(), pending_.end(),
                                 [](const auto& entry) { return entry.second.timed; });
  if (timed || pending_.size() >= kMaxWanted || from >= run_.steps_total) return;
  pending_[from].timed = true;
}

void CheckpointPolicy::SetStopping(bool stopping, absl::Duration now) {
  if (stopping == stopping_ || finished_.has_value()) return;
  stopping_ = stopping;
  if (!stopping) {
    ForgetStop();
    next_multiple_ = 0;
  }
  Advance(steps_done_, now);
}

void CheckpointPolicy::ForgetStop() {
  if (!stop_step_.has_value()) return;
  const auto found = pending_.find(*stop_step_);
  if (found != pending_.end() && !found->second.writing) pending_.erase(found);
  stop_step_.reset();
}

bool CheckpointPolicy::holds_stop() const {
  if (!stop_step_.has_value()) return false;
  const auto found = pending_.find(*stop_step_);
  return found != pending_.end() && (found->second.writing || Complete(found->second));
}

uint64_t CheckpointPolicy::NextStop(absl::Duration now) const {
  // The step that is under way is finished, and as many more as are begun until all have heard.
  return steps_done_ + (1 + static_cast<uint64_t>(StepsUnderWay(now) + 0.9)) * missed_factor_;
}

void CheckpointPolicy::WantStop(absl::Duration now) {
  if (stop_step_.has_value() && !stop_asked_ && steps_done_ > *stop_step_) {
    // All workers have passed it.
    missed_factor_ = std::min(missed_factor_ * 2, kMaxMissedFactor);
    ForgetStop();
  }
  const uint64_t step = NextStop(now);
  if (stop_step_.has_value()) {
    AskForStop(now);
    // Chosen when the job seemed faster than it is: nobody is near it yet.
    const auto found = pending_.find(*stop_step_);
    const bool copied = stop_asked_ && (found == pending_.end() || found->second.writing ||
                                        !found->second.reported.empty());
    const bool begun = copied || *stop_step_ <= step;
    if (begun || *stop_step_ - step <= step - steps_done_ + kAhead) return;
    ForgetStop();
  }
  if (step >= run_.steps_total) return;
  // What is wanted besides comes later than this, or can go for it.
  for (auto it = pending_.begin(); it != pending_.end();) {
    it = it->second.writing || it->first == step ? std::next(it) : pending_.erase(it);
  }
  stop_step_ = step;
  stop_asked_ = false;
  reached_.reset();
  AskForStop(now);
}

void CheckpointPolicy::AskForStop(absl::Duration now) {
  if (stop_asked_) return;
  if (pending_.count(*stop_step_) == 0 && pending_.size() >= copies_) {
    if (steps_done_ < *stop_step_) return;
    if (!reached_.has_value()) reached_ = now;
    if (now - *reached_ < kStanding) return;
  }
  stop_asked_ = true;
  pending_[*stop_step_];
}

void CheckpointPolicy::Finish(bool is_written, absl::Duration now) {
  if (finished_.has_value()) return;
  finished_ = now;
  steps_done_ = run_.steps_total;
  wants_last_ = run_.asked && !is_written;
  ForgetStop();
  Advance(steps_done_, now);
}

void CheckpointPolicy::AwaitServers(absl::Duration now) {
  if (run_.under_way.has_value() && finished_.has_value() && wants_last_) finished_ = now;
}

void CheckpointPolicy::WantLast(absl::Duration now) {
  if (!wants_last_ || pending_.size() >= SnapshotsAtOnce(spec_)) return;
  // What servers copied for the coordinator before they forget when it is not wanted for a while,
  // and so they report it anew.
  if (run_.under_way.has_value() && now - *finished_ < kLastSettling) return;
  wants_last_ = false;
  pending_[run_.steps_total].passed = now;
}

absl::Status CheckpointPolicy::OnSnapshot(uint32_t server, const v1::SnapshotReport& report) {
  const auto found = pending_.find(report.step());
  if (found == pending_.end()) return absl::OkStatus();
  if (run_.servers.count(server) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("snapshot of step ", report.step(), " from a server without pages"));
  }
  Pending& pending = found->second;
  if (pending.reported.empty()) pending.updates = report.updates();
  if (report.updates() != pending.updates) {
    return absl::InvalidArgumentError(absl::StrCat("snapshot of step ", report.step(), ": found ",
                                                   report.updates(), " updates, expected ",
                                                   pending.updates, " as on another server"));
  }
  pending.reported.insert(server);
  return absl::OkStatus();
}

std::optional<CheckpointPolicy::Ready> CheckpointPolicy::TakeReady() {
  for (const auto& [step, pending] : pending_) {
    if (pending.writing) return std::nullopt;
  }
  for (auto& [step, pending] : pending_) {
    if (!Complete(pending)) continue;
    pending.writing = true;
    return Ready{step, pending.updates};
  }
  return std::nullopt;
}

void CheckpointPolicy::OnEnd(uint64_t step, absl::Duration now) {
  if (step == run_.steps_total) wants_last_ = false;
  if (pending_.erase(step) > 0) last_ = now;
}

}  // namespace sangam
