#include "server/core/control_plane.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/plan/plan_shape.h"
#include "common/plan/server_memory.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/daemon_key.h"
#include "server/core/job_forecast.h"
#include "server/core/job_run.h"
#include "server/core/job_state.h"
#include "server/core/planner.h"
#include "server/core/registration.h"
#include "server/core/resume_check.h"
#include "server/core/shortened.h"
#include "server/core/timestamp.h"
#include "server/core/weight_holds.h"

namespace sangam {
namespace {

constexpr size_t kMaxReasonBytes = 4096;

std::string NamesOf(const std::vector<ChosenDaemon>& daemons) {
  return absl::StrJoin(daemons, ", ", [](std::string* out, const ChosenDaemon& daemon) {
    absl::StrAppend(out, daemon.name);
  });
}

std::shared_ptr<v1::Assignment> MakeAssignment(v1::Assignment::Phase phase, const v1::JobSpec& spec,
                                               const v1::Plan& plan, const std::string& owner) {
  auto assignment = std::make_shared<v1::Assignment>();
  assignment->set_phase(phase);
  *assignment->mutable_spec() = spec;
  *assignment->mutable_plan() = plan;
  assignment->set_owner(owner);
  return assignment;
}

JobTable::Options TableOptions(const ControlPlane::Options& options) {
  JobTable::Options jobs = options.jobs;
  jobs.keep_records = options.keep_records;
  return jobs;
}

}  // namespace

ControlPlane::ControlPlane(Options options)
    : options_(std::move(options)),
      members_(options_.membership),
      jobs_(TableOptions(options_)),
      traces_(options_.traces),
      logs_(options_.logs),
      journal_(options_.keep_records) {}

absl::Status ControlPlane::Register(const v1::RegisterRequest& request, Moment now) {
  Advance(now);
  RETURN_IF_ERROR(CheckRegistration(request));
  ASSIGN_OR_RETURN(const Membership::Registration registration,
                   members_.Register(request, now.steady));
  changed_daemons_.insert(KeyOf(request.daemon()));
  if (registration == Membership::Registration::kRenewed) {
    Schedule(now);
    return absl::OkStatus();
  }
  ++roster_;
  board_.Add(KeyOf(request.daemon()));
  changes_.assignments = true;
  Note(false, "daemon registered",
       {{"role", RoleName(request.daemon().role())},
        {"name", request.daemon().name()},
        {"incarnation", absl::StrCat(request.daemon().incarnation())},
        {"address", request.address()}});
  Schedule(now);
  return absl::OkStatus();
}

absl::Status ControlPlane::Renew(const v1::DaemonIdentity& daemon, Moment now) {
  Advance(now);
  const size_t awaited = members_.num_awaited();
  RETURN_IF_ERROR(members_.Renew(daemon, now.steady));
  if (members_.num_awaited() == awaited) return absl::OkStatus();
  Note(false, "daemon is back", {{"role", RoleName(daemon.role())}, {"name", daemon.name()}});
  if (members_.num_awaited() == 0) Schedule(now);
  return absl::OkStatus();
}

absl::StatusOr<AssignmentBoard::Entry> ControlPlane::AssignmentsOf(
    const v1::DaemonIdentity& daemon) const {
  RETURN_IF_ERROR(members_.Check(daemon));
  const AssignmentBoard::Entry* entry = board_.Get(KeyOf(daemon));
  SANGAM_CHECK(entry != nullptr);  // Every living daemon has one.
  return *entry;
}

void ControlPlane::Leave(const v1::LeaveRequest& request, Moment now) {
  Advance(now);
  if (!members_.Leave(request.daemon())) return;
  LoseDaemon({KeyOf(request.daemon()), request.daemon().incarnation(),
              Shortened(request.reason(), kMaxReasonBytes)},
             "left", now);
  Schedule(now);
}

std::vector<std::shared_ptr<const v1::Assignment>> ControlPlane::ServedJobs() const {
  std::vector<std::shared_ptr<const v1::Assignment>> served;
  for (const auto& [job, run] : runs_) {
    if (run.served != nullptr) served.push_back(run.served);
  }
  return served;
}

void ControlPlane::OnServedData(uint64_t job, uint64_t generation,
                                const absl::StatusOr<v1::ReadyReport>& data, Moment now) {
  Advance(now);
  Run* found = FindRun(job, generation);
  if (found == nullptr || found->served == nullptr) return;
  Apply(job, found->run.OnServedData(data, now.steady), now);
}

absl::StatusOr<v1::Job> ControlPlane::Submit(JobTable::Submission submission, Moment now) {
  Advance(now);
  ASSIGN_OR_RETURN(const uint64_t id, jobs_.Submit(std::move(submission), now.wall));
  changes_.events = true;
  Schedule(now);
  return *jobs_.Get(id);
}

absl::StatusOr<v1::Job> ControlPlane::Cancel(const v1::CancelJobRequest& request, Moment now) {
  Advance(now);
  ASSIGN_OR_RETURN(const uint64_t id, jobs_.Find(request.job()));
  const std::string reason = request.reason().empty()
                                 ? "cancelled by the user"
                                 : Shortened(request.reason(), kMaxReasonBytes);
  if (runs_.count(id) != 0) {
    EndRun(id, {v1::CANCELLED, reason}, now);
  } else if (!HasEnded(jobs_.Get(id)->state())) {
    ChangeState(id, v1::CANCELLED, reason, now);
  }
  Schedule(now);
  return *jobs_.Get(id);
}

absl::Status ControlPlane::Delete(const v1::DeleteJobRequest& request, Moment now) {
  Advance(now);
  ASSIGN_OR_RETURN(const uint64_t id, jobs_.Find(request.job()));
  RETURN_IF_ERROR(CheckNotNeeded(id));
  // While it is still there to be marked.
  if (HasEnded(jobs_.Get(id)->state())) ReleaseWeights(id, "the job is deleted");
  RETURN_IF_ERROR(jobs_.Delete(id));
  traces_.Forget(id);
  logs_.Forget(id);
  log_writers_.Forget(id);
  changes_.events = true;
  Note(false, "job deleted", {{"job", absl::StrCat(id)}});
  Schedule(now);
  return absl::OkStatus();
}

v1::Cluster ControlPlane::DescribeCluster(Moment now) const {
  v1::Cluster cluster;
  cluster.set_version(kVersion);
  cluster.set_protocol_version(kProtocolVersion);
  *cluster.mutable_time() = ToTimestamp(now.wall);
  for (const auto& [key, daemon] : members_.daemons()) {
    v1::DaemonStatus* status = cluster.add_daemon();
    status->set_role(RoleName(key.role));
    status->set_name(key.name);
    status->set_incarnation(daemon.registration.daemon().incarnation());
    status->set_address(daemon.registration.address());
    const int64_t silent = absl::ToInt64Milliseconds(now.steady - daemon.last_sign);
    status->set_silent_ms(static_cast<uint64_t>(std::max<int64_t>(silent, 0)));
    status->set_alive(daemon.alive);
    status->set_fault(daemon.fault);
    status->set_draining(daemon.alive ? daemon.draining : "");
    status->set_threads(daemon.registration.threads());
    status->set_memory_bytes(daemon.registration.memory_bytes());
    status->set_backend(daemon.registration.backend());
    status->set_flops_per_second(daemon.registration.flops_per_second());
    if (daemon.registration.has_device()) *status->mutable_device() = daemon.registration.device();
    if (const AssignmentBoard::Entry* entry = board_.Get(key); entry != nullptr) {
      for (const auto& [job, assignment] : entry->assignments) status->add_job(job);
    }
  }
  return cluster;
}

void ControlPlane::Advance(Moment now) {
  // A process that itself stood still (suspended, starved) has not heard the signs of life of that
  // time: nobody may be called lost for it.
  if (last_advance_.has_value() && now.steady - *last_advance_ > options_.membership.lease / 2) {
    members_.RenewAll(now.steady);
    Note(true, "coordinator stood still",
         {{"for", absl::FormatDuration(now.steady - *last_advance_)}});
  }
  last_advance_ = now.steady;
  const std::vector<Membership::Gone> lost = members_.ExpireLeases(now.steady);
  for (const Membership::Gone& gone : lost) LoseDaemon(gone, "lost", now);
  for (const uint64_t job : RunningJobs()) {
    // What one job's end causes may end another.
    const auto found = runs_.find(job);
    if (found == runs_.end()) continue;
    if (found->second.checkpoints != nullptr) {
      if (AwaitsServer(found->second.run.plan()))
        found->second.checkpoints->AwaitServers(now.steady);
      found->second.checkpoints->Advance(0, now.steady);
      WantSnapshots(&found->second);
    }
    if (found->second.ending.has_value()) {
      EndAwaited(job, now);
      continue;
    }
    if (found->second.stopping.has_value()) {
      AdvanceDrain(job, now);
      if (runs_.count(job) == 0 || found->second.needs_no_workers()) continue;
    }
    JobRun::Effects effects = found->second.run.OnTime(now.steady);
    // One that stands still may wait in vain for another one that stands: no fault of the job.
    if (found->second.stopping.has_value() && found->second.run.holds_failure() &&
        effects.outcome.has_value()) {
      effects.outcome->state = v1::PREEMPTED;
    }
    Apply(job, effects, now);
  }
  if (!lost.empty()) Schedule(now);
}

ControlPlane::Changes ControlPlane::TakeChanges() {
  TakeRecords(&changes_.records);
  return std::exchange(changes_, {});
}

void ControlPlane::LoseDaemon(const Membership::Gone& gone, absl::string_view how, Moment now) {
  Note(true, absl::StrCat("daemon ", how),
       {{"role", RoleName(gone.key.role)}, {"name", gone.key.name}, {"why", gone.why}});
  ++roster_;
  board_.Remove(gone.key);
  changed_daemons_.insert(gone.key);
  changes_.assignments = true;
  v1::DaemonIdentity identity;
  identity.set_role(gone.key.role);
  identity.set_name(gone.key.name);
  identity.set_incarnation(gone.incarnation);
  if (gone.key.role == v1::SERVER) {
    EndWithout(identity, how, now);
    for (const uint64_t job : holds_.On(gone.key.name)) {
      ReleaseWeights(job, absl::StrCat(ToString(gone.key), " ", how));
    }
  }
  for (const uint64_t job : RunningJobs()) {
    const auto found = runs_.find(job);
    // One that awaits its last checkpoint has no use for workers any more.
    if (found == runs_.end() || found->second.ending.has_value()) continue;
    if (found->second.needs_no_workers() && gone.key.role == v1::WORKER) continue;
    if (const auto member = found->second.run.Find(identity); member.has_value()) {
      Apply(job, found->second.run.OnGone(*member, how, gone.why), now);
    }
  }
}

void ControlPlane::ReleaseWeights(uint64_t job, absl::string_view why) {
  const std::optional<WeightHolds::Hold> hold = holds_.Remove(job);
  if (!hold.has_value()) return;
  for (const auto& [server, bytes] : hold->bytes) board_.Withdraw({v1::SERVER, server}, job);
  journal_.End(job);
  jobs_.SetWeightsAvailable(job, false);
  jobs_.SetServerMemory(job, 0);
  changes_.assignments = true;
  Note(false, "weights released", {{"job", absl::StrCat(job)}, {"why", std::string(why)}});
}

void ControlPlane::OnPlanned(const std::shared_ptr<const ToPlan>& planned,
                             const v1::PlanReport& report, Moment now,
                             const absl::StatusOr<ResumePoint>& resume) {
  Advance(now);
  // Every change of the queue or the daemons has replaced what no longer holds.
  if (planned == nullptr || planned != to_plan_) return;
  to_plan_ = nullptr;
  to_plan_taken_ = false;
  if (resume.ok()) {
    Start(*planned, report, *resume, now);
  } else {
    ChangeState(
        planned->job, v1::FAILED,
        Shortened(absl::StrCat("resume_from: ", resume.status().message()), kMaxReasonBytes), now);
  }
  Schedule(now);
}

void ControlPlane::Start(const ToPlan& planned, const v1::PlanReport& report,
                         const ResumePoint& resume, Moment now) {
  const v1::Job& job = *jobs_.Get(planned.job);
  const std::string where = absl::StrCat("on workers ", NamesOf(planned.workers), " and servers ",
                                         NamesOf(planned.servers));
  if (!report.feasible()) {
    if (planned.again) {
      Postpone(planned.job, absl::StrCat(where, ": ", report.explanation()), now);
    } else {
      ChangeState(planned.job, v1::FAILED, Shortened(report.explanation(), kMaxReasonBytes), now);
    }
    return;
  }
  // All are of one kind.
  std::string worker_kind =
      KindOf(job.spec(), planned.workers.front().name, planned.workers.front().incarnation);
  if (const absl::Status kind = CheckResumeKind(worker_kind, resume.worker_kind); !kind.ok()) {
    if (planned.again || HasWorkersOfKind(job.spec(), resume.worker_kind)) {
      // Which the coordinator does not know of a job that begins, nor after it was started again.
      kept_kinds_[planned.job] = resume.worker_kind;
    } else {
      ChangeState(planned.job, v1::FAILED, absl::StrCat("resume_from: ", kind.message()), now);
    }
    return;
  }
  const v1::StrategyForecast& chosen = report.forecast(static_cast<int>(report.chosen()));
  const absl::StatusOr<v1::Plan> plan = MakePlan(
      {planned.job, job.generation() + 1, planned.workers, planned.servers, ShapeOf(chosen)},
      job.spec(), job.layout());
  if (!plan.ok()) {
    ChangeState(planned.job, v1::FAILED, Shortened(plan.status().message(), kMaxReasonBytes), now);
    return;
  }
  const ServerBytes bytes = TrainingBytes(*plan, job.spec());
  MakeRoom(planned.job, bytes);
  const auto prepare = MakeAssignment(v1::Assignment::PREPARE, job.spec(), *plan, job.owner());
  prepare->set_first_step(resume.step);
  prepare->set_first_updates(resume.updates);
  jobs_.SetPlan(planned.job, *plan, chosen,
                job.spec().strategy() == v1::AUTO ? report.explanation() : "");
  if (planned.again) jobs_.GoBack(planned.job, resume.step, resume.updates);
  if (const auto before = given_back_.find(planned.job); before != given_back_.end()) {
    before->second.step = std::min(before->second.step, resume.step);
  }
  ChangeState(
      planned.job, v1::STARTING,
      absl::StrCat(where, planned.again ? absl::StrCat(", again from step ", resume.step) : ""),
      now);
  jobs_.SetServerMemory(planned.job, TotalOf(bytes));
  const JobRun::Options options{options_.membership.lease, options_.starting_deadline};
  const auto added =
      runs_.emplace(planned.job, Run{JobRun(prepare, options, now.steady), bytes, nullptr}).first;
  added->second.worker_kind = std::move(worker_kind);
  added->second.train_samples = resume.train_samples;
  AssignAll(&added->second, prepare);
}

const v1::RegisterRequest& ControlPlane::RegistrationOf(v1::DaemonRole role,
                                                        const std::string& name) const {
  return members_.daemons().at({role, name}).registration;
}

void ControlPlane::MakeRoom(uint64_t job, const ServerBytes& wanted) {
  for (const auto& [server, bytes] : wanted) {
    const uint64_t limit = RegistrationOf(v1::SERVER, server).memory_bytes();
    if (limit == 0) continue;
    uint64_t taken = bytes;
    for (const auto& [other, run] : runs_) {
      const auto here = run.server_bytes.find(server);
      if (here != run.server_bytes.end()) taken += here->second;
    }
    while (taken + holds_.BytesOn(server) > limit && !holds_.On(server).empty()) {
      ReleaseWeights(holds_.On(server).front(), absl::StrCat("room for job ", job));
    }
  }
}

ControlPlane::Run* ControlPlane::FindRun(uint64_t job, uint64_t generation) {
  const auto found = runs_.find(job);
  if (found == runs_.end() || found->second.run.plan().generation() != generation) return nullptr;
  return &found->second;
}

std::vector<uint64_t> ControlPlane::RunningJobs() const {
  std::vector<uint64_t> jobs;
  for (const auto& [job, run] : runs_) jobs.push_back(job);
  return jobs;
}

void ControlPlane::Apply(uint64_t job, const JobRun::Effects& effects, Moment now) {
  if (effects.run.has_value()) BeginTraining(job, *effects.run, now);
  for (const v1::StepMetrics& step : effects.steps) jobs_.AddStep(job, step, now.wall);
  for (const v1::Evaluation& evaluation : effects.evaluations) {
    jobs_.AddEvaluation(job, evaluation, now.wall);
  }
  for (const std::string& message : effects.messages) jobs_.AddMessage(job, message, now.wall);
  if (effects.skipped_steps > 0) jobs_.AddSkippedSteps(job, effects.skipped_steps);
  if (!effects.steps.empty() || !effects.evaluations.empty() || !effects.messages.empty()) {
    changes_.events = true;
  }
  if (const auto run = runs_.find(job);
      !effects.steps.empty() && run != runs_.end() && run->second.checkpoints != nullptr) {
    run->second.checkpoints->Advance(effects.steps.back().step() + 1, now.steady);
    WantSnapshots(&run->second);
  }
  if (!effects.outcome.has_value()) {
    const auto run = runs_.find(job);
    if (run != runs_.end() && run->second.stopping.has_value()) AdvanceDrain(job, now);
    return;
  }
  if (effects.outcome->state != v1::SUCCEEDED || !AwaitCheckpoints(job, *effects.outcome, now)) {
    EndRun(job, *effects.outcome, now);
  }
  Schedule(now);
}

void ControlPlane::BeginTraining(uint64_t job, const JobLength& length, Moment now) {
  Run& run = runs_.at(job);
  if (run.train_samples != 0 && run.train_samples != length.train_samples) {
    EndRun(job,
           {v1::FAILED,
            absl::StrCat("data: found ", length.train_samples, " training samples, expected ",
                         run.train_samples, " as when the checkpoint of step ",
                         run.run.first_step(), " was made")},
           now);
    Schedule(now);
    return;
  }
  const auto assignment =
      MakeAssignment(v1::Assignment::RUN, run.run.spec(), run.run.plan(), run.run.owner());
  assignment->set_steps_total(length.steps_total);
  assignment->set_steps_per_epoch(length.steps_per_epoch);
  assignment->set_train_samples(length.train_samples);
  assignment->set_test_samples(length.test_samples);
  assignment->set_first_step(run.run.first_step());
  assignment->set_first_updates(run.run.first_updates());
  jobs_.SetLength(job, length.steps_total, length.steps_per_epoch);
  ChangeState(job, v1::RUNNING, "all workers and servers are ready", now);
  traces_.Begin(run.run.spec().name(), run.run.plan());
  BeginCheckpoints(&run, length.steps_total, std::nullopt, now);
  if (run.checkpoints != nullptr) {
    for (const uint64_t step : run.checkpoints->Wanted()) assignment->add_snapshot_step(step);
  }
  AssignAll(&run, assignment);
}

std::vector<std::string> ControlPlane::AwaitedWorkers(uint64_t job) const {
  const auto found = runs_.find(job);
  if (found == runs_.end() || found->second.needs_no_workers()) return {};
  return found->second.run.Awaited();
}

absl::StatusOr<std::shared_ptr<const v1::Assignment>> ControlPlane::AssignmentOf(
    const v1::DaemonIdentity& daemon, uint64_t job, uint64_t generation) const {
  const auto found = runs_.find(job);
  if (found == runs_.end() || found->second.run.plan().generation() != generation ||
      !found->second.run.Find(daemon).has_value()) {
    return absl::NotFoundError(absl::StrCat("job ", job, ", generation ", generation, ": ",
                                            ToString(KeyOf(daemon)), " has no part in it"));
  }
  return found->second.assignment;
}

JobRun::Outcome ControlPlane::Settle(const JobRun& run, const JobRun::Outcome& outcome) const {
  if (outcome.state != v1::PREEMPTED || outcome.drained) return outcome;
  const v1::Job& job = *jobs_.Get(run.job());
  if (outcome.pages_lost && job.checkpoint().empty() && job.spec().resume_from().empty()) {
    return {v1::FAILED, absl::StrCat(outcome.reason, "; there is no checkpoint to go on from")};
  }
  const std::vector<std::string> losses = jobs_.LossesOf(run.job());
  if (losses.size() < options_.max_restarts) return outcome;
  return {v1::FAILED, absl::StrCat(outcome.reason, "; the job has started again ", losses.size(),
                                   " times already, after: ", absl::StrJoin(losses, "; "))};
}

void ControlPlane::EndRun(uint64_t job, const JobRun::Outcome& asked, Moment now) {
  const auto found = runs_.find(job);
  const JobRun& run = found->second.run;
  const JobRun::Outcome outcome = Settle(run, asked);
  given_back_.erase(job);
  if (outcome.drained) KeepGivenBack(found->second);
  for (const v1::WorkerPlan& worker : run.plan().worker()) {
    board_.Withdraw({v1::WORKER, worker.name()}, job);
  }
  if (outcome.state == v1::SUCCEEDED && options_.keep_finished_jobs > 0) {
    KeepWeights(run);
  } else {
    for (const v1::ServerPlan& server : run.plan().server()) {
      board_.Withdraw({v1::SERVER, server.name()}, job);
    }
    journal_.End(job);
  }
  changes_.assignments = true;
  if (found->second.served != nullptr) changes_.served = true;
  if (!jobs_.Get(job)->weights_available()) jobs_.SetServerMemory(job, 0);
  // One that begins anew may do so on workers of any kind.
  if (outcome.state == v1::PREEMPTED && !found->second.worker_kind.empty() &&
      !jobs_.Get(job)->checkpoint().empty()) {
    kept_kinds_[job] = found->second.worker_kind;
  }
  if (outcome.state == v1::PREEMPTED && !outcome.drained) {
    jobs_.AddLoss(job, Shortened(outcome.reason, kMaxReasonBytes));
  }
  runs_.erase(found);
  ChangeState(job, outcome.state, Shortened(outcome.reason, kMaxReasonBytes), now);
  if (outcome.state != v1::PREEMPTED) return;
  jobs_.ClearPlan(job);
  ChangeState(job, v1::QUEUED, "starts again when its daemons are there", now);
}

void ControlPlane::KeepWeights(const JobRun& run) {
  const auto hold = MakeAssignment(v1::Assignment::HOLD, run.spec(), run.plan(), run.owner());
  hold->set_first_step(run.first_step());
  hold->set_first_updates(run.first_updates());
  WeightHolds::Hold kept{run.job(), KeptBytes(run.plan()), run.skipped()};
  for (const auto& [server, bytes] : kept.bytes) board_.Assign({v1::SERVER, server}, hold);
  journal_.Assign(*hold);
  jobs_.SetWeightsAvailable(run.job(), true);
  jobs_.SetServerMemory(run.job(), TotalOf(kept.bytes));
  holds_.Add(std::move(kept));
  if (holds_.size() > options_.keep_finished_jobs) {
    ReleaseWeights(holds_.oldest(), absl::StrCat("the weights of ", options_.keep_finished_jobs,
                                                 " younger jobs are kept"));
  }
}

void ControlPlane::AssignAll(Run* run, const std::shared_ptr<const v1::Assignment>& assignment) {
  for (const v1::WorkerPlan& worker : assignment->plan().worker()) {
    board_.Assign({v1::WORKER, worker.name()}, assignment);
  }
  for (const v1::ServerPlan& server : assignment->plan().server()) {
    board_.Assign({v1::SERVER, server.name()}, assignment);
  }
  AdmitLines(assignment->plan());
  journal_.Assign(*assignment);
  changes_.assignments = true;
  run->assignment = assignment;
  if (!assignment->spec().data().served()) return;
  run->served = assignment;
  changes_.served = true;
}

void ControlPlane::ChangeState(uint64_t job, v1::JobState state, absl::string_view reason,
                               Moment now) {
  // Every caller has looked at the state before.
  SANGAM_CHECK(jobs_.ChangeState(job, state, reason, now.wall).ok());
  changes_.events = true;
  if (HasEnded(state)) NoteUnwanted(job);
  if (HasEnded(state)) given_back_.erase(job);
  Note(state == v1::FAILED || state == v1::PREEMPTED, "job changed",
       {{"job", absl::StrCat(job)},
        {"name", jobs_.Get(job)->spec().name()},
        {"state", v1::JobState_Name(state)},
        {"reason", std::string(reason)}});
}

void ControlPlane::Note(bool warning, std::string event,
                        std::vector<std::pair<std::string, std::string>> fields) {
  changes_.notices.push_back({warning, std::move(event), std::move(fields)});
}

}  // namespace sangam
