#include "server/core/checkpoint_policy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
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

size_t CheckpointPolicy::MostWanted(const v1::JobSpec& spec) {
  return spec.has_checkpoint() ? MostWanted(spec.checkpoint()) : 0;
}

size_t CheckpointPolicy::MostWanted(const v1::CheckpointSpec& spec) {
  // Of those that the time asks for there is one.
  return spec.every_steps() > 0 ? kMaxWanted : 1;
}

CheckpointPolicy::CheckpointPolicy(const v1::CheckpointSpec& spec, Run run, absl::Duration now)
    : spec_(spec),
      run_(std::move(run)),
      began_(now),
      steps_at_begin_(std::max(run_.first_step, run_.under_way.value_or(0))),
      steps_done_(steps_at_begin_),
      last_(now) {
  if (run_.under_way.has_value()) return;
  // Training has not begun: every step after the first can be asked for.
  WantMultiples(run_.first_step + 1);
}

std::vector<uint64_t> CheckpointPolicy::Wanted() const {
  std::vector<uint64_t> steps;
  for (const auto& [step, pending] : pending_) steps.push_back(step);
  return steps;
}

uint64_t CheckpointPolicy::Margin(absl::Duration now) const {
  const double seconds = absl::ToDoubleSeconds(now - began_);
  const double rate =
      seconds > 0 ? static_cast<double>(steps_done_ - steps_at_begin_) / seconds : 0;
  return (kAhead + static_cast<uint64_t>(std::ceil(std::min(rate * kDeliverySeconds, 1e9)))) *
         missed_factor_;
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
  const uint64_t from = steps_done_ + Margin(now);
  WantMultiples(from);
  WantTimed(from, now);
}

bool CheckpointPolicy::Settled(absl::Duration now) {
  if (!run_.under_way.has_value()) return true;
  if (!progressed_.has_value() && steps_done_ > steps_at_begin_) progressed_ = now;
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

void CheckpointPolicy::Finish(bool is_written, absl::Duration now) {
  if (finished_.has_value()) return;
  finished_ = now;
  steps_done_ = run_.steps_total;
  wants_last_ = !is_written;
  Advance(steps_done_, now);
}

void CheckpointPolicy::WantLast(absl::Duration now) {
  if (!wants_last_ || pending_.size() >= MostWanted(spec_)) return;
  // What servers copied for the coordinator before they forget when it is not wanted for a while,
  // and so they report it anew.
  if (run_.under_way.has_value() && now - *finished_ < kSettling) return;
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
