// How a control plane is written down and taken up again.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/plan/batch_cut.h"
#include "common/plan/server_memory.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "proto/saved_state.pb.h"
#include "server/core/control_plane.h"
#include "server/core/daemon_key.h"
#include "server/core/job_run.h"
#include "server/core/job_state.h"
#include "server/core/membership.h"
#include "server/core/run_journal.h"
#include "server/core/saved_records.h"
#include "server/core/timestamp.h"
#include "server/core/weight_holds.h"

namespace sangam {
namespace {

// Revisions of the board, and of a job's log, that one coordinator may use; the next one begins
// after them.
constexpr int kRevisionBits = 40;

constexpr char kOwnPagesLost[] = "the coordinator, which also held pages, was started again";

RecordKey KeyOfDaemon(const DaemonKey& key) { return {RecordKind::kDaemon, 0, 0, ToString(key)}; }

// Samples of the steps below `step`.
uint64_t SamplesBefore(const v1::Assignment& run, uint64_t step) {
  if (run.train_samples() == 0) return 0;
  const BatchCut cut{run.spec().batch().size(), run.plan().micro_batches(), run.plan().shares(),
                     run.train_samples()};
  return cut.EpochOf(step) * run.train_samples() + cut.BatchSamples(step).begin;
}

// How far the job had come since it started last, from what is known of it.
PastProgress PastOf(const JobTable& jobs, const RunJournal::Held& held, absl::Time now) {
  const uint64_t first_step = held.assignment->first_step();
  const v1::Job& job = *jobs.Get(held.assignment->plan().job());
  PastProgress past;
  past.steps_done = std::max(job.progress().steps_done(), first_step);
  past.samples = SamplesBefore(*held.assignment, past.steps_done) -
                 SamplesBefore(*held.assignment, first_step);
  if (job.evaluation_size() > 0) past.last_evaluation = job.evaluation().rbegin()->step();
  for (const v1::StateChange& change : job.history()) {
    if (change.state() != v1::RUNNING) continue;
    past.trained_for = std::max(now - FromTimestamp(change.time()), absl::ZeroDuration());
  }
  past.skipped = held.skipped;
  past.steps = jobs.StepsOf(job.id());
  return past;
}

bool HasMember(const v1::Plan& plan, const PlanMember& member) {
  const int members = member.role == v1::WORKER ? plan.worker_size() : plan.server_size();
  return member.index < static_cast<uint32_t>(members);
}

// What a run comes to that had done all when its coordinator ended; nothing when it had not.
std::optional<JobRun::Outcome> SuccessOf(JobRun run, const std::vector<v1::SavedReport>& reports,
                                         absl::Duration now) {
  for (const v1::SavedReport& saved : reports) {
    const PlanMember member{saved.role(), saved.index()};
    if (!HasMember(run.plan(), member)) continue;
    const JobRun::Effects effects = run.OnReport(member, saved.report(), now);
    if (!effects.outcome.has_value()) continue;
    return effects.outcome->state == v1::SUCCEEDED ? effects.outcome : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

absl::Status ControlPlane::Restore(const SavedRecords& records, Moment now,
                                   const CheckpointsByJob* found) {
  v1::SavedCoordinator saved;
  const RecordKey key{RecordKind::kCoordinator, 0, 0, ""};
  if (const auto record = records.find(key); record != records.end()) {
    if (!saved.ParseFromString(record->second)) {
      return absl::DataLossError(absl::StrCat(ToString(key), ": found bytes that make no sense"));
    }
  }
  starts_ = saved.starts() + 1;
  board_.BeginAfter(starts_ << kRevisionBits);
  logs_.BeginAfter(starts_ << kRevisionBits);
  RETURN_IF_ERROR(jobs_.Restore(records, saved.last_job()));
  // Before anything is judged by them. One may have been complete a moment before the earlier
  // coordinator ended.
  for (const uint64_t id : jobs_.Ids()) {
    if (found == nullptr) break;
    const auto checkpoints = found->find(id);
    OnCheckpointsFound(
        id, checkpoints == found->end() ? CheckpointsByJob::mapped_type() : checkpoints->second,
        now);
    if (HasEnded(jobs_.Get(id)->state())) NoteUnwanted(id);
  }
  for (auto it = records.lower_bound({RecordKind::kDaemon, 0, 0, ""});
       it != records.end() && it->first.kind == RecordKind::kDaemon; ++it) {
    v1::SavedDaemon daemon;
    if (!daemon.ParseFromString(it->second)) {
      return absl::DataLossError(
          absl::StrCat(ToString(it->first), ": found bytes that make no sense"));
    }
    RestoreDaemon(daemon, now);
  }
  // Those that have ended in the order in which they did, which is that of the holds.
  std::vector<uint64_t> ids(jobs_.ended().begin(), jobs_.ended().end());
  for (const uint64_t id : jobs_.Ids()) {
    if (!HasEnded(jobs_.Get(id)->state())) ids.push_back(id);
  }
  for (const uint64_t id : ids) {
    const v1::Job& job = *jobs_.Get(id);
    ASSIGN_OR_RETURN(const RunJournal::Held held, journal_.Restore(records, job));
    if (job.state() == v1::STARTING || job.state() == v1::RUNNING) {
      if (held.assignment == nullptr) {
        return absl::DataLossError(absl::StrCat("job ", id, ": found no record of its assignment"));
      }
      RestoreRun(held, now);
    } else if (held.assignment != nullptr) {
      RestoreHold(held);
    }
  }
  if (!saved.own_server().name().empty() && members_.Leave(saved.own_server())) {
    LoseDaemon({KeyOf(saved.own_server()), saved.own_server().incarnation(), kOwnPagesLost}, "lost",
               now);
  }
  if (!records.empty()) {
    Note(false, "state restored",
         {{"starts", absl::StrCat(starts_)},
          {"jobs", absl::StrCat(jobs_.size())},
          {"running", absl::StrCat(runs_.size())},
          {"daemons_awaited", absl::StrCat(members_.num_awaited())}});
  }
  AdvanceDrains(now);
  Schedule(now);
  return absl::OkStatus();
}

void ControlPlane::RestoreDaemon(const v1::SavedDaemon& saved, Moment now) {
  members_.Restore(saved.registration(), saved.alive(), saved.left(), now.steady, saved.fault(),
                   saved.cordoned());
  if (saved.alive()) board_.Add(KeyOf(saved.registration().daemon()));
}

std::optional<PlanMember> ControlPlane::MissingMember(const v1::Plan& plan,
                                                      bool without_workers) const {
  const auto missing = [this](v1::DaemonRole role, const auto& members) {
    std::optional<PlanMember> found;
    for (int i = 0; i < members.size() && !found.has_value(); ++i) {
      v1::DaemonIdentity identity;
      identity.set_role(role);
      identity.set_name(members[i].name());
      identity.set_incarnation(members[i].incarnation());
      if (!members_.Check(identity).ok()) found = PlanMember{role, static_cast<uint32_t>(i)};
    }
    return found;
  };
  // A server first: without its pages there may be no way on.
  std::optional<PlanMember> found = missing(v1::SERVER, plan.server());
  if (!found.has_value() && !without_workers) found = missing(v1::WORKER, plan.worker());
  return found;
}

void ControlPlane::RestoreHold(const RunJournal::Held& held) {
  const v1::Assignment& assignment = *held.assignment;
  const uint64_t job = assignment.plan().job();
  WeightHolds::Hold hold{job, KeptBytes(assignment.plan()), held.skipped};
  for (const auto& [server, bytes] : hold.bytes) {
    board_.Assign({v1::SERVER, server}, held.assignment);
  }
  holds_.Add(std::move(hold));
  AdmitLines(assignment.plan());
  for (const v1::ServerPlan& server : assignment.plan().server()) {
    v1::DaemonIdentity identity;
    identity.set_role(v1::SERVER);
    identity.set_name(server.name());
    identity.set_incarnation(server.incarnation());
    if (members_.Check(identity).ok()) continue;
    ReleaseWeights(job, absl::StrCat(ToString(KeyOf(identity)), " lost"));
    return;
  }
  if (holds_.size() > options_.keep_finished_jobs) {
    ReleaseWeights(holds_.oldest(), absl::StrCat("the weights of ", options_.keep_finished_jobs,
                                                 " younger jobs are kept"));
  }
}

void ControlPlane::RestoreRun(const RunJournal::Held& held, Moment now) {
  const uint64_t job = held.assignment->plan().job();
  const bool running = held.assignment->phase() == v1::Assignment::RUN;
  // A failure that may come from a daemon that is gone is held back until that one counts as lost.
  const JobRun::Options options{options_.membership.lease + options_.membership.reattach,
                                options_.starting_deadline + options_.membership.reattach};
  const ServerBytes bytes = TrainingBytes(held.assignment->plan(), held.assignment->spec());
  JobRun run = running ? JobRun(held.assignment, options, PastOf(jobs_, held, now.wall), now.steady)
                       : JobRun(held.assignment, options, now.steady);
  Run& restored = runs_.emplace(job, Run{std::move(run), bytes, nullptr}).first->second;
  const v1::WorkerPlan& worker = held.assignment->plan().worker(0);
  restored.worker_kind = KindOf(held.assignment->spec(), worker.name(), worker.incarnation());
  std::optional<JobRun::Outcome> success;
  if (running) success = SuccessOf(restored.run, held.reports, now.steady);
  if (const auto missing = MissingMember(held.assignment->plan(), success.has_value());
      missing.has_value()) {
    const JobRun::Outcome gone = *restored.run.OnGone(*missing, "lost", "").outcome;
    EndRun(job, success.has_value() ? WithoutPages(restored.run, *missing, "lost", *success) : gone,
           now);
    if (success.has_value()) ReleaseWeights(job, gone.reason);
    return;
  }
  if (running) traces_.Begin(held.assignment->spec().name(), held.assignment->plan());
  AssignAll(&restored, held.assignment);
  if (running) {
    BeginCheckpoints(&restored, held.assignment->steps_total(),
                     jobs_.Get(job)->progress().steps_done(), now);
    if (restored.checkpoints != nullptr) WantSnapshots(&restored);
  }
  for (const v1::SavedReport& saved : held.reports) {
    Run* found = FindRun(job, held.assignment->plan().generation());
    if (found == nullptr) return;
    const PlanMember member{saved.role(), saved.index()};
    if (!HasMember(held.assignment->plan(), member)) continue;
    const JobRun::Effects effects = found->run.OnReport(member, saved.report(), now.steady);
    KeepReport(*found, member, saved.report(), effects);
    Apply(job, effects, now);
  }
}

void ControlPlane::TakeRecords(RecordChanges* records) {
  jobs_.TakeRecords(records);
  journal_.TakeRecords(records);
  std::vector<DaemonKey> forgotten = members_.TakeForgotten();
  if (!options_.keep_records) {
    changed_daemons_.clear();
    return;
  }
  changed_daemons_.insert(forgotten.begin(), forgotten.end());
  for (const DaemonKey& key : changed_daemons_) {
    std::optional<std::string>& record = (*records)[KeyOfDaemon(key)];
    const auto found = members_.daemons().find(key);
    if (found == members_.daemons().end()) continue;
    v1::SavedDaemon saved;
    *saved.mutable_registration() = found->second.registration;
    saved.set_alive(found->second.alive);
    saved.set_left(found->second.left);
    saved.set_fault(found->second.fault);
    saved.set_cordoned(found->second.cordoned);
    record = saved.SerializeAsString();
  }
  changed_daemons_.clear();
  // Written once at each start, and with every new job.
  if (saved_last_job_ == jobs_.last_id() && starts_ == saved_starts_) return;
  saved_last_job_ = jobs_.last_id();
  saved_starts_ = starts_;
  v1::SavedCoordinator saved;
  saved.set_starts(starts_);
  saved.set_last_job(jobs_.last_id());
  *saved.mutable_own_server() = options_.own_server;
  (*records)[{RecordKind::kCoordinator, 0, 0, ""}] = saved.SerializeAsString();
}

}  // namespace sangam
