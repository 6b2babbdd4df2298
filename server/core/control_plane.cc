#include "server/core/control_plane.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
#include "common/plan/plan_shape.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/daemon_key.h"
#include "server/core/job_forecast.h"
#include "server/core/job_run.h"
#include "server/core/job_state.h"
#include "server/core/log_store.h"
#include "server/core/planner.h"
#include "server/core/registration.h"
#include "server/core/scheduler.h"
#include "server/core/server_memory.h"
#include "server/core/shortened.h"
#include "server/core/timestamp.h"
#include "server/core/trace_store.h"
#include "server/core/weight_holds.h"

namespace sangam {
namespace {

constexpr int kMaxReports = 1024;
constexpr size_t kMaxReasonBytes = 4096;

QueuedJob DemandOf(uint64_t id, const v1::JobSpec& spec, uint64_t server_bytes) {
  return {id,
          spec.name(),
          spec.resources().workers(),
          spec.resources().servers(),
          spec.priority(),
          server_bytes};
}

// The same processes in the same order.
bool AreSame(const std::vector<ChosenDaemon>& a, const std::vector<ChosenDaemon>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const ChosenDaemon& one, const ChosenDaemon& other) {
                      return one.name == other.name && one.incarnation == other.incarnation;
                    });
}

std::string NamesOf(const std::vector<ChosenDaemon>& daemons) {
  return absl::StrJoin(daemons, ", ", [](std::string* out, const ChosenDaemon& daemon) {
    absl::StrAppend(out, daemon.name);
  });
}

std::shared_ptr<v1::Assignment> MakeAssignment(v1::Assignment::Phase phase, const v1::JobSpec& spec,
                                               const v1::Plan& plan) {
  auto assignment = std::make_shared<v1::Assignment>();
  assignment->set_phase(phase);
  *assignment->mutable_spec() = spec;
  *assignment->mutable_plan() = plan;
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

absl::Status ControlPlane::Report(const v1::ReportRequest& request, Moment now) {
  RETURN_IF_ERROR(Renew(request.daemon(), now));
  if (request.report_size() > kMaxReports) {
    return absl::InvalidArgumentError(
        absl::StrCat("report: found ", request.report_size(), ", expected at most ", kMaxReports));
  }
  bool only_lines = request.report_size() > 0;
  for (const v1::JobReport& report : request.report()) {
    only_lines = only_lines && report.has_log();
    if (report.has_log()) KeepLines(request.daemon(), request.job(), report.log());
  }
  // They may be about a generation that is over, or a job that is forgotten.
  if (only_lines) return absl::OkStatus();
  std::optional<PlanMember> member;
  if (const Run* found = FindRun(request.job(), request.generation()); found != nullptr) {
    member = found->run.Find(request.daemon());
  }
  if (!member.has_value()) {
    if (TakeLateSkips(request, now)) return absl::OkStatus();
    return absl::AbortedError(
        absl::StrCat("job ", request.job(), ", generation ", request.generation(), ": ",
                     ToString(KeyOf(request.daemon())), " has no part in it (any more)"));
  }
  for (const v1::JobReport& report : request.report()) {
    if (report.has_log()) continue;
    // A report may end the job; what comes after it has no object.
    Run* found = FindRun(request.job(), request.generation());
    if (found == nullptr) break;
    if (report.has_snapshot() && member->role == v1::SERVER) {
      OnSnapshot(found, *member, report.snapshot(), now);
      continue;
    }
    const JobRun::Effects effects = found->run.OnReport(*member, report, now.steady);
    RETURN_IF_ERROR(effects.later);
    if (!effects.outcome.has_value()) {
      Measure(found->run, member->index, report);
      journal_.Add(found->run, *member, report);
    }
    if (effects.skipped_steps > 0) journal_.SetSkipped(request.job(), found->run.skipped());
    Apply(request.job(), effects, now);
  }
  return absl::OkStatus();
}

bool ControlPlane::TakeLateSkips(const v1::ReportRequest& request, Moment now) {
  WeightHolds::Hold* hold = holds_.Find(request.job());
  const AssignmentBoard::Entry* entry = board_.Get(KeyOf(request.daemon()));
  if (hold == nullptr || entry == nullptr) return false;
  const auto found = entry->assignments.find(request.job());
  if (found == entry->assignments.end()) return false;
  const v1::Plan& plan = found->second->plan();
  if (plan.generation() != request.generation() || request.daemon().role() != v1::SERVER ||
      plan.server(0).name() != request.daemon().name()) {
    return false;
  }
  bool any = false;
  for (const v1::JobReport& report : request.report()) {
    if (!report.has_skipped_step()) continue;
    any = true;
    if (report.skipped_step().step() >= jobs_.Get(hold->job)->progress().steps_total() ||
        !hold->skipped.Add(report.skipped_step().step())) {
      continue;
    }
    jobs_.AddSkippedSteps(hold->job, 1);
    jobs_.AddMessage(hold->job, SkippedText(report.skipped_step()), now.wall);
    journal_.SetSkipped(hold->job, hold->skipped);
    changes_.events = true;
  }
  return any;
}

void ControlPlane::KeepLines(const v1::DaemonIdentity& daemon, uint64_t job,
                             const v1::LogReport& log) {
  if (jobs_.Get(job) == nullptr) return;
  for (int i = 0; i < std::min(log.line_size(), kMaxReports); ++i) {
    const v1::LogReport::Line& reported = log.line(i);
    v1::LogLine line;
    *line.mutable_time() = ToTimestamp(absl::FromUnixMicros(static_cast<int64_t>(
        std::min<uint64_t>(reported.time_us(), std::numeric_limits<int64_t>::max()))));
    line.set_daemon(ToString(KeyOf(daemon)));
    const bool known = reported.level() == "warning" || reported.level() == "error";
    line.set_level(known ? reported.level() : "info");
    line.set_text(reported.text());
    logs_.Add(job, std::move(line));
  }
  changes_.events = true;
}

void ControlPlane::KeepLine(uint64_t job, bool warning, std::string text, Moment now) {
  if (jobs_.Get(job) == nullptr) return;
  v1::LogLine line;
  *line.mutable_time() = ToTimestamp(now.wall);
  line.set_daemon("coordinator");
  line.set_level(warning ? "warning" : "info");
  line.set_text(std::move(text));
  logs_.Add(job, std::move(line));
  changes_.events = true;
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

ClusterView ControlPlane::ViewFor(const JobTable::Submission& submission) const {
  // By name, as the scheduler chooses among workers that hold nothing.
  std::vector<const v1::RegisterRequest*> workers;
  for (const auto& [key, daemon] : members_.daemons()) {
    if (workers.size() == submission.spec.resources().workers()) break;
    if (key.role == v1::WORKER && daemon.alive) workers.push_back(&daemon.registration);
  }
  return ViewOf(workers, options_.link_bytes_per_second, block_times_, submission.spec,
                submission.layout);
}

absl::Status ControlPlane::CheckAdmission(const JobTable::Submission& submission,
                                          bool await_daemons) const {
  const QueuedJob demand =
      DemandOf(0, submission.spec, LargestServerBytes(submission.spec, submission.layout));
  const std::vector<CandidateDaemon> servers = Candidates(v1::SERVER);
  std::vector<std::string> reasons;
  if (!await_daemons) reasons = LackingDaemons(demand, Candidates(v1::WORKER), servers);
  if (std::string lacking = LackingMemory(demand, servers); !lacking.empty()) {
    reasons.push_back(std::move(lacking));
  }
  if (reasons.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrJoin(reasons, "\n"));
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
  if (const auto resumers = jobs_.ResumersOf(id); !resumers.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", id, ": job ", resumers.begin()->second, " is to go on from its checkpoint of step ",
        resumers.begin()->first, "; cancel that one first, or wait until it runs"));
  }
  if (writing_.count(id) != 0) {
    return absl::UnavailableError(
        absl::StrCat("job ", id, ": a checkpoint of it is being written; try again"));
  }
  // While it is still there to be marked.
  if (HasEnded(jobs_.Get(id)->state())) ReleaseWeights(id, "the job is deleted");
  RETURN_IF_ERROR(jobs_.Delete(id));
  traces_.Forget(id);
  logs_.Forget(id);
  changes_.events = true;
  Note(false, "job deleted", {{"job", absl::StrCat(id)}});
  Schedule(now);
  return absl::OkStatus();
}

v1::Cluster ControlPlane::DescribeCluster(Moment now) const {
  v1::Cluster cluster;
  for (const auto& [key, daemon] : members_.daemons()) {
    v1::DaemonStatus* status = cluster.add_daemon();
    status->set_role(RoleName(key.role));
    status->set_name(key.name);
    status->set_incarnation(daemon.registration.daemon().incarnation());
    status->set_address(daemon.registration.address());
    const int64_t silent = absl::ToInt64Milliseconds(now.steady - daemon.last_sign);
    status->set_silent_ms(static_cast<uint64_t>(std::max<int64_t>(silent, 0)));
    status->set_alive(daemon.alive);
    status->set_threads(daemon.registration.threads());
    status->set_memory_bytes(daemon.registration.memory_bytes());
    status->set_backend(daemon.registration.backend());
    status->set_flops_per_second(daemon.registration.flops_per_second());
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
      found->second.checkpoints->Advance(0, now.steady);
      WantSnapshots(&found->second);
    }
    Apply(job, found->second.run.OnTime(now.steady), now);
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
  board_.Remove(gone.key);
  changed_daemons_.insert(gone.key);
  changes_.assignments = true;
  if (gone.key.role == v1::SERVER) {
    for (const uint64_t job : holds_.On(gone.key.name)) {
      ReleaseWeights(job, absl::StrCat(ToString(gone.key), " ", how));
    }
  }
  v1::DaemonIdentity identity;
  identity.set_role(gone.key.role);
  identity.set_name(gone.key.name);
  identity.set_incarnation(gone.incarnation);
  for (const uint64_t job : RunningJobs()) {
    const auto found = runs_.find(job);
    if (found == runs_.end()) continue;
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

std::vector<CandidateDaemon> ControlPlane::Candidates(v1::DaemonRole role) const {
  std::vector<CandidateDaemon> candidates;
  for (const auto& [key, daemon] : members_.daemons()) {
    if (key.role != role || !daemon.alive) continue;
    const AssignmentBoard::Entry* entry = board_.Get(key);
    candidates.push_back({key.name, entry == nullptr ? 0 : entry->assignments.size(),
                          role == v1::SERVER ? daemon.registration.memory_bytes() : 0});
  }
  return candidates;
}

ClusterSnapshot ControlPlane::Snapshot() {
  ClusterSnapshot snapshot;
  std::map<uint64_t, uint64_t> queued_bytes;
  for (const uint64_t id : jobs_.Queued()) {
    const v1::Job& job = *jobs_.Get(id);
    const auto known = queued_bytes_.find(id);
    queued_bytes[id] =
        known != queued_bytes_.end() ? known->second : LargestServerBytes(job.spec(), job.layout());
    snapshot.queued.push_back(DemandOf(id, job.spec(), queued_bytes[id]));
  }
  queued_bytes_ = std::move(queued_bytes);
  for (const auto& [id, run] : runs_) {
    RunningJob running{id, run.run.spec().name(), run.run.spec().priority(), {}, run.server_bytes};
    for (const v1::WorkerPlan& worker : run.run.plan().worker()) {
      running.workers.push_back(worker.name());
    }
    snapshot.running.push_back(std::move(running));
  }
  snapshot.workers = Candidates(v1::WORKER);
  snapshot.servers = Candidates(v1::SERVER);
  return snapshot;
}

void ControlPlane::Schedule(Moment now) {
  // What is there shows when they have come back.
  if (members_.num_awaited() > 0) return;
  Decision decision = Decide(Snapshot());
  while (decision.impossible.has_value()) {
    ChangeState(decision.impossible->job, v1::FAILED, decision.impossible->reason, now);
    decision = Decide(Snapshot());
  }
  for (const WaitingJob& waiting : decision.waiting) {
    jobs_.SetWaitReason(waiting.job, waiting.reason, now.wall);
    changes_.events = true;
  }
  if (!decision.start.has_value()) {
    to_plan_ = nullptr;
    return;
  }
  const StartJob& start = *decision.start;
  if (to_plan_ != nullptr && to_plan_->job == start.job &&
      AreSame(to_plan_->workers, Choose(v1::WORKER, start.workers)) &&
      AreSame(to_plan_->servers, Choose(v1::SERVER, start.servers))) {
    return;
  }
  to_plan_ = ToPlanOf(start);
  to_plan_taken_ = false;
}

std::vector<ChosenDaemon> ControlPlane::Choose(v1::DaemonRole role,
                                               const std::vector<std::string>& names) const {
  std::vector<ChosenDaemon> chosen;
  for (const std::string& name : names) {
    const v1::RegisterRequest& known = RegistrationOf(role, name);
    chosen.push_back({name, known.daemon().incarnation(), known.address()});
  }
  return chosen;
}

std::shared_ptr<const ControlPlane::ToPlan> ControlPlane::ToPlanOf(const StartJob& start) const {
  const v1::Job& job = *jobs_.Get(start.job);
  std::vector<const v1::RegisterRequest*> workers;
  for (const std::string& name : start.workers) {
    workers.push_back(&RegistrationOf(v1::WORKER, name));
  }
  return std::make_shared<const ToPlan>(ToPlan{
      start.job, Choose(v1::WORKER, start.workers), Choose(v1::SERVER, start.servers), job.spec(),
      job.layout(),
      ViewOf(workers, options_.link_bytes_per_second, block_times_, job.spec(), job.layout())});
}

std::shared_ptr<const ControlPlane::ToPlan> ControlPlane::TakeToPlan() {
  if (to_plan_taken_) return nullptr;
  to_plan_taken_ = to_plan_ != nullptr;
  return to_plan_;
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
  if (!report.feasible()) {
    ChangeState(planned.job, v1::FAILED, Shortened(report.explanation(), kMaxReasonBytes), now);
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
  const ServerBytes bytes = TrainingBytes(*plan, job.spec().optimizer());
  MakeRoom(planned.job, bytes);
  const auto prepare = MakeAssignment(v1::Assignment::PREPARE, job.spec(), *plan);
  prepare->set_first_step(resume.step);
  prepare->set_first_updates(resume.updates);
  jobs_.SetPlan(planned.job, *plan, chosen,
                job.spec().strategy() == v1::AUTO ? report.explanation() : "");
  ChangeState(planned.job, v1::STARTING,
              absl::StrCat("on workers ", NamesOf(planned.workers), " and servers ",
                           NamesOf(planned.servers)),
              now);
  jobs_.SetServerMemory(planned.job, TotalOf(bytes));
  const JobRun::Options options{options_.membership.lease, options_.starting_deadline};
  const auto added =
      runs_.emplace(planned.job, Run{JobRun(prepare, options, now.steady), bytes, nullptr}).first;
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
  if (!effects.outcome.has_value()) return;
  EndRun(job, *effects.outcome, now);
  Schedule(now);
}

void ControlPlane::BeginTraining(uint64_t job, const JobLength& length, Moment now) {
  Run& run = runs_.at(job);
  const auto assignment = MakeAssignment(v1::Assignment::RUN, run.run.spec(), run.run.plan());
  assignment->set_steps_total(length.steps_total);
  assignment->set_steps_per_epoch(length.steps_per_epoch);
  assignment->set_train_samples(length.train_samples);
  assignment->set_test_samples(length.test_samples);
  assignment->set_first_step(run.run.first_step());
  assignment->set_first_updates(run.run.first_updates());
  jobs_.SetLength(job, length.steps_total, length.steps_per_epoch);
  ChangeState(job, v1::RUNNING, "all workers and servers are ready", now);
  traces_.Begin(run.run.spec().name(), run.run.plan());
  BeginCheckpoints(&run, length.steps_total, now);
  if (run.checkpoints != nullptr) {
    for (const uint64_t step : run.checkpoints->Wanted()) assignment->add_snapshot_step(step);
  }
  AssignAll(&run, assignment);
}

void ControlPlane::BeginCheckpoints(Run* run, uint64_t steps_total, Moment now) {
  if (!run->run.spec().has_checkpoint()) return;
  CheckpointPolicy::Run facts;
  facts.first_step = run->run.first_step();
  facts.steps_total = steps_total;
  for (const v1::SegmentPages& pages : run->run.plan().segment_pages()) {
    facts.servers.insert(pages.server().begin(), pages.server().end());
  }
  run->checkpoints = std::make_unique<CheckpointPolicy>(run->run.spec().checkpoint(),
                                                        std::move(facts), now.steady);
}

void ControlPlane::WantSnapshots(Run* run) {
  const std::vector<uint64_t> wanted = run->checkpoints->Wanted();
  const auto& known = run->assignment->snapshot_step();
  if (std::equal(wanted.begin(), wanted.end(), known.begin(), known.end())) return;
  const auto assignment = std::make_shared<v1::Assignment>(*run->assignment);
  *assignment->mutable_snapshot_step() = {wanted.begin(), wanted.end()};
  run->assignment = assignment;
  // Not of the workers, and not for the next coordinator: it asks anew.
  for (const v1::ServerPlan& server : assignment->plan().server()) {
    board_.Assign({v1::SERVER, server.name()}, assignment);
  }
  changes_.assignments = true;
}

void ControlPlane::OnSnapshot(Run* run, const PlanMember& member, const v1::SnapshotReport& report,
                              Moment now) {
  if (run->checkpoints == nullptr) return;
  const absl::Status status = run->checkpoints->OnSnapshot(member.index, report);
  if (!status.ok()) {
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
    return CheckpointToWrite{ready->step, ready->updates, run.assignment};
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
  if (found != nullptr && found->checkpoints != nullptr) {
    found->checkpoints->OnEnd(checkpoint.step, now.steady);
    found->checkpoints->Advance(0, now.steady);
    WantSnapshots(found);
    changes_.checkpoints = true;
  }
  const std::string step = absl::StrCat(checkpoint.step);
  if (all.ok()) {
    if (jobs_.Get(plan.job()) != nullptr) {
      jobs_.SetCheckpoints(plan.job(), *all, checkpoint.step, now.wall);
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
}

void ControlPlane::OnCheckpointsFound(uint64_t job,
                                      const std::vector<v1::CheckpointSummary>& all, Moment now) {
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

void ControlPlane::Measure(const JobRun& run, uint32_t worker, const v1::JobReport& report) {
  if (report.has_trace()) {
    const std::optional<v1::Utilization> utilization =
        traces_.Add(run.job(), worker, report.trace());
    if (utilization.has_value()) jobs_.SetUtilization(run.job(), *utilization);
  } else if (report.has_block_times()) {
    const std::string& name = run.plan().worker(static_cast<int>(worker)).name();
    block_times_.Add(report.block_times(), run.spec().model(), run.plan().layout(),
                     RegistrationOf(v1::WORKER, name).backend());
  }
}

void ControlPlane::EndRun(uint64_t job, const JobRun::Outcome& outcome, Moment now) {
  const auto found = runs_.find(job);
  const JobRun& run = found->second.run;
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
  runs_.erase(found);
  ChangeState(job, outcome.state, Shortened(outcome.reason, kMaxReasonBytes), now);
}

void ControlPlane::KeepWeights(const JobRun& run) {
  const auto hold = MakeAssignment(v1::Assignment::HOLD, run.spec(), run.plan());
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
  Note(state == v1::FAILED, "job changed",
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
