// The checkpoints of a control plane's jobs.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "server/core/checkpoint_policy.h"
#include "server/core/control_plane.h"
#include "server/core/daemon_key.h"
#include "server/core/job_run.h"
#include "server/core/job_state.h"
#include "server/core/shortened.h"

namespace sangam {
namespace {

constexpr size_t kMaxReasonBytes = 4096;

}  // namespace

void ControlPlane::BeginCheckpoints(Run* run, uint64_t steps_total,
                                    std::optional<uint64_t> under_way, Moment now) {
  CheckpointPolicy::Run facts;
  facts.asked = run->run.spec().has_checkpoint();
  facts.first_step = run->run.first_step();
  facts.steps_total = steps_total;
  facts.under_way = under_way;
  for (const v1::SegmentPages& pages : run->run.plan().segment_pages()) {
    facts.servers.insert(pages.server().begin(), pages.server().end());
  }
  run->checkpoints = std::make_unique<CheckpointPolicy>(run->run.spec().checkpoint(),
                                                        std::move(facts), now.steady);
}

void ControlPlane::WantSnapshots(Run* run) {
  const std::vector<uint64_t> wanted = run->checkpoints->Wanted();
  const std::optional<uint64_t> stop = run->checkpoints->stop_step();
  const v1::Assignment& known = *run->assignment;
  const bool same_stop = stop.has_value() ? known.has_stop_step() && known.stop_step() == *stop
                                          : !known.has_stop_step();
  if (same_stop && std::equal(wanted.begin(), wanted.end(), known.snapshot_step().begin(),
                              known.snapshot_step().end())) {
    return;
  }
  const auto assignment = std::make_shared<v1::Assignment>(known);
  *assignment->mutable_snapshot_step() = {wanted.begin(), wanted.end()};
  if (stop.has_value()) {
    assignment->set_stop_step(*stop);
  } else {
    assignment->clear_stop_step();
  }
  run->assignment = assignment;
  // Not for the next coordinator: it asks anew.
  for (const v1::ServerPlan& server : assignment->plan().server()) {
    board_.Assign({v1::SERVER, server.name()}, assignment);
  }
  if (!same_stop && !run->needs_no_workers()) {
    for (const v1::WorkerPlan& worker : assignment->plan().worker()) {
      board_.Assign({v1::WORKER, worker.name()}, assignment);
    }
  }
  changes_.assignments = true;
}

void ControlPlane::OnSnapshot(Run* run, const PlanMember& member, const v1::SnapshotReport& report,
                              Moment now) {
  if (run->checkpoints == nullptr) return;
  const absl::Status status = run->checkpoints->OnSnapshot(member.index, report);
  if (!status.ok()) {
    if (run->stopping.has_value() && run->checkpoints->stop_step() == report.step()) {
      run->stopping->failed = true;
    }
    run->checkpoints->OnEnd(report.step(), now.steady);
    WantSnapshots(run);
    jobs_.AddMessage(run->run.job(), absl::StrCat("no checkpoint: ", status.message()), now.wall);
    changes_.events = true;
    return;
  }
  changes_.checkpoints = true;
}

std::optional<ControlPlane::CheckpointToWrite> ControlPlane::TakeCheckpoint() {
  for (auto& [job, run] : runs_) {
    if (run.checkpoints == nullptr) continue;
    const std::optional<CheckpointPolicy::Ready> ready = run.checkpoints->TakeReady();
    if (!ready.has_value()) continue;
    writing_.insert(job);
    return CheckpointToWrite{ready->step, ready->updates, run.assignment, run.worker_kind};
  }
  return std::nullopt;
}

void ControlPlane::OnCheckpoint(const CheckpointToWrite& checkpoint,
                                const absl::StatusOr<std::vector<v1::CheckpointSummary>>& all,
                                Moment now) {
  Advance(now);
  const v1::Plan& plan = checkpoint.assignment->plan();
  writing_.erase(plan.job());
  Run* const found = FindRun(plan.job(), plan.generation());
  if (found != nullptr && found->stopping.has_value() &&
      found->checkpoints->stop_step() == checkpoint.step) {
    if (all.ok()) found->stopping->written = checkpoint.step;
    found->stopping->failed = !all.ok();
  }
  if (found != nullptr && found->checkpoints != nullptr) {
    found->checkpoints->OnEnd(checkpoint.step, now.steady);
    found->checkpoints->Advance(0, now.steady);
    WantSnapshots(found);
  }
  if (found != nullptr && found->ending.has_value()) {
    found->ending->until = now.steady + options_.last_checkpoint_deadline;
  }
  // Of this job or another one, which has been waiting: they are written one at a time.
  changes_.checkpoints = true;
  const std::string step = absl::StrCat(checkpoint.step);
  if (all.ok()) {
    if (jobs_.Get(plan.job()) != nullptr) {
      jobs_.SetCheckpoints(plan.job(), *all, checkpoint.step, now.wall);
      if (HasEnded(jobs_.Get(plan.job())->state())) NoteUnwanted(plan.job());
    }
    Note(false, "checkpoint written", {{"job", absl::StrCat(plan.job())}, {"step", step}});
  } else {
    if (found != nullptr) {
      jobs_.AddMessage(
          plan.job(),
          Shortened(absl::StrCat("checkpoint of step ", step, " failed: ", all.status().message()),
                    kMaxReasonBytes),
          now.wall);
    }
    Note(found != nullptr, "checkpoint failed",
         {{"job", absl::StrCat(plan.job())}, {"step", step}, {"why", all.status().ToString()}});
  }
  changes_.events = true;
  if (found != nullptr && found->ending.has_value()) {
    EndAwaited(plan.job(), now);
  } else if (found != nullptr && found->stopping.has_value()) {
    AdvanceDrain(plan.job(), now);
  }
  // The job may wait for this to start again.
  if (found == nullptr) Schedule(now);
}

bool ControlPlane::AwaitCheckpoints(uint64_t job, const JobRun::Outcome& outcome, Moment now) {
  Run& run = runs_.at(job);
  if (!run.run.spec().has_checkpoint()) return false;
  if (run.ending.has_value()) return true;  // steps that were skipped, told late
  const auto& written = jobs_.Get(job)->checkpoint();
  const uint64_t last = run.run.steps_total();
  const bool is_written = std::any_of(written.begin(), written.end(), [last](const auto& summary) {
    return summary.step() == last;
  });
  run.checkpoints->Finish(is_written, now.steady);
  if (run.checkpoints->is_over()) return false;
  run.ending = Ending{outcome, now.steady + options_.last_checkpoint_deadline};
  WantSnapshots(&run);
  for (const v1::WorkerPlan& worker : run.run.plan().worker()) {
    board_.Withdraw({v1::WORKER, worker.name()}, job);
  }
  changes_.assignments = true;
  if (std::exchange(run.served, nullptr) != nullptr) changes_.served = true;
  Note(false, "job awaits its last checkpoint", {{"job", absl::StrCat(job)}});
  return true;
}

void ControlPlane::EndAwaited(uint64_t job, Moment now) {
  const Run& run = runs_.at(job);
  if (!run.ending.has_value()) return;
  const bool over = run.checkpoints->is_over();
  // One that is being written ends by itself: whoever writes it has deadlines of its own.
  if (!over && (now.steady < run.ending->until || writing_.count(job) != 0)) return;
  if (!over || run.checkpoints->missed_last()) {
    const std::string why =
        over ? absl::StrCat("not all servers have copied it within ",
                            absl::FormatDuration(CheckpointPolicy::kLastPatience))
             : absl::StrCat("it was not written within ",
                            absl::FormatDuration(options_.last_checkpoint_deadline));
    jobs_.AddMessage(
        job, absl::StrCat("no checkpoint of the last step, ", run.run.steps_total(), ": ", why),
        now.wall);
    Note(true, "no checkpoint of the last step", {{"job", absl::StrCat(job)}, {"why", why}});
  }
  EndRun(job, JobRun::Outcome(run.ending->outcome), now);
  Schedule(now);
}

JobRun::Outcome ControlPlane::WithoutPages(const JobRun& run, const PlanMember& server,
                                           absl::string_view how,
                                           const JobRun::Outcome& success) const {
  JobRun::Outcome again = *run.OnGone(server, how, "its pages of the last step are lost").outcome;
  return Settle(run, again).state == v1::PREEMPTED ? again : success;
}

void ControlPlane::EndWithout(const v1::DaemonIdentity& server, absl::string_view how, Moment now) {
  for (const uint64_t job : RunningJobs()) {
    const Run& run = runs_.at(job);
    if (!run.ending.has_value() || !run.run.Find(server).has_value()) continue;
    jobs_.AddMessage(job,
                     absl::StrCat("no checkpoint of the last step, ", run.run.steps_total(), ": ",
                                  ToString(KeyOf(server)), " ", how),
                     now.wall);
    EndRun(job, WithoutPages(run.run, *run.run.Find(server), how, run.ending->outcome), now);
  }
}

bool ControlPlane::AwaitsServer(const v1::Plan& plan) const {
  if (members_.num_awaited() == 0) return false;
  return std::any_of(plan.server().begin(), plan.server().end(), [this](const auto& server) {
    const auto found = members_.daemons().find({v1::SERVER, server.name()});
    return found != members_.daemons().end() && found->second.awaited;
  });
}

void ControlPlane::NoteUnwanted(uint64_t job) {
  const v1::Job& ended = *jobs_.Get(job);
  if (ended.spec().has_checkpoint() || ended.checkpoint().empty()) return;
  unwanted_.insert(job);
  changes_.checkpoints = true;
}

std::vector<uint64_t> ControlPlane::TakeUnwanted() {
  std::vector<uint64_t> taken;
  for (const uint64_t job : std::exchange(unwanted_, {})) {
    if (jobs_.Get(job) == nullptr || !jobs_.ResumersOf(job).empty()) continue;
    if (writing_.count(job) != 0) {
      unwanted_.insert(job);
      continue;
    }
    jobs_.SetCheckpoints(job, {}, 0, absl::UnixEpoch());
    taken.push_back(job);
  }
  return taken;
}

absl::Status ControlPlane::CheckNotNeeded(uint64_t job) const {
  if (const auto resumers = jobs_.ResumersOf(job); !resumers.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job, ": job ", resumers.begin()->second,
                     " is to go on from its checkpoint of step ", resumers.begin()->first,
                     "; cancel that one first, or wait until it runs"));
  }
  if (writing_.count(job) != 0) {
    return absl::UnavailableError(
        absl::StrCat("job ", job, ": a checkpoint of it is being written; try again"));
  }
  return absl::OkStatus();
}

void ControlPlane::OnCheckpointsFound(uint64_t job, const std::vector<v1::CheckpointSummary>& all,
                                      Moment now) {
  const v1::Job* known = jobs_.Get(job);
  if (known == nullptr) return;
  std::set<uint64_t> missing;
  for (const v1::CheckpointSummary& summary : known->checkpoint()) missing.insert(summary.step());
  std::vector<uint64_t> news;
  for (const v1::CheckpointSummary& summary : all) {
    if (missing.erase(summary.step()) == 0) news.push_back(summary.step());
  }
  if (!missing.empty()) jobs_.SetCheckpoints(job, all, 0, now.wall);
  for (const uint64_t step : news) jobs_.SetCheckpoints(job, all, step, now.wall);
  changes_.events = true;
  const auto run = runs_.find(job);
  if (run == runs_.end() || !run->second.ending.has_value()) return;
  for (const uint64_t step : news) run->second.checkpoints->OnEnd(step, now.steady);
  WantSnapshots(&run->second);
  EndAwaited(job, now);
}

}  // namespace sangam
