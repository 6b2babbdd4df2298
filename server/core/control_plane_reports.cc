// What the daemons of a control plane report.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/assignment_board.h"
#include "server/core/control_plane.h"
#include "server/core/daemon_key.h"
#include "server/core/job_run.h"
#include "server/core/registration.h"
#include "server/core/shortened.h"
#include "server/core/timestamp.h"
#include "server/core/weight_holds.h"

namespace sangam {
namespace {

constexpr int kMaxReports = 1024;
constexpr size_t kMaxFaultBytes = 1024;

}  // namespace

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
    // Whatever has become of the job meanwhile.
    if (report.has_failed()) SetFault(request.daemon(), report.failed(), now);
  }
  // They may be about a generation that is over, or a job that is forgotten.
  if (only_lines) return absl::OkStatus();
  std::optional<PlanMember> member;
  if (const Run* found = FindRun(request.job(), request.generation()); found != nullptr) {
    member = found->run.Find(request.daemon());
    // It has let go of its workers.
    if (found->needs_no_workers() && request.daemon().role() == v1::WORKER) member.reset();
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
      if (found->stopping.has_value()) AdvanceDrain(request.job(), now);
      continue;
    }
    // What else happens cannot change what has been computed.
    if (found->needs_no_workers() && !report.has_skipped_step()) continue;
    const JobRun::Effects effects = found->run.OnReport(*member, report, now.steady);
    RETURN_IF_ERROR(effects.later);
    if (!effects.outcome.has_value()) Measure(found->run, member->index, report);
    KeepReport(*found, *member, report, effects);
    if (effects.skipped_steps > 0) journal_.SetSkipped(request.job(), found->run.skipped());
    Apply(request.job(), effects, now);
  }
  return absl::OkStatus();
}

void ControlPlane::SetFault(const v1::DaemonIdentity& worker, const v1::FailedReport& report,
                            Moment now) {
  if (!report.daemon_at_fault() || worker.role() != v1::WORKER) return;
  std::string why =
      Shortened(report.message().empty() ? "its device is lost" : report.message(), kMaxFaultBytes);
  if (!members_.SetFault(worker, why)) return;
  ++roster_;
  changed_daemons_.insert(KeyOf(worker));
  Note(true, "worker without its device", {{"name", worker.name()}, {"why", std::move(why)}});
  Schedule(now);
}

void ControlPlane::KeepReport(const Run& run, const PlanMember& member, const v1::JobReport& report,
                              const JobRun::Effects& effects) {
  // With the last one of a run that awaits its checkpoints, the next coordinator knows that too.
  const bool awaits = effects.outcome.has_value() && effects.outcome->state == v1::SUCCEEDED &&
                      run.run.spec().has_checkpoint();
  if (!effects.outcome.has_value() || awaits) journal_.Add(run.run, member, report);
}

bool ControlPlane::TakeLateSkips(const v1::ReportRequest& request, Moment now) {
  return TakeSkipsOfHeld(request, now) || TakeSkipsOfGivenBack(request, now);
}

bool ControlPlane::TakeSkipsOfGivenBack(const v1::ReportRequest& request, Moment now) {
  const auto found = given_back_.find(request.job());
  if (found == given_back_.end()) return false;
  GivenBack& run = found->second;
  const bool counts = KeyOf(run.counter) == KeyOf(request.daemon()) &&
                      run.counter.incarnation() == request.daemon().incarnation();
  if (!counts || run.generation != request.generation()) return false;
  bool any = false;
  for (const v1::JobReport& report : request.report()) {
    if (!report.has_skipped_step()) continue;
    any = true;
    // Later ones are done again, and told again.
    if (report.skipped_step().step() >= run.step ||
        !run.skipped.Add(report.skipped_step().step())) {
      continue;
    }
    // Once the job has started again, the number is that of its checkpoint, which has this one.
    if (jobs_.Get(request.job())->state() == v1::QUEUED) jobs_.AddSkippedSteps(request.job(), 1);
    jobs_.AddMessage(request.job(), SkippedText(report.skipped_step()), now.wall);
    changes_.events = true;
  }
  return any;
}

bool ControlPlane::TakeSkipsOfHeld(const v1::ReportRequest& request, Moment now) {
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

void ControlPlane::AdmitLines(const v1::Plan& plan) {
  log_writers_.KeepOnly([this](uint64_t job) { return jobs_.Get(job) != nullptr; });
  for (const v1::WorkerPlan& worker : plan.worker()) {
    log_writers_.Admit(plan.job(), {v1::WORKER, worker.name()});
  }
  for (const v1::ServerPlan& server : plan.server()) {
    log_writers_.Admit(plan.job(), {v1::SERVER, server.name()});
  }
}

void ControlPlane::KeepLines(const v1::DaemonIdentity& daemon, uint64_t job,
                             const v1::LogReport& log) {
  if (jobs_.Get(job) == nullptr || !log_writers_.Has(job, KeyOf(daemon))) return;
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

void ControlPlane::Measure(const JobRun& run, uint32_t worker, const v1::JobReport& report) {
  if (report.has_trace()) {
    const std::optional<v1::Utilization> utilization =
        traces_.Add(run.job(), worker, report.trace());
    if (utilization.has_value()) jobs_.SetUtilization(run.job(), *utilization);
  } else if (report.has_block_times()) {
    const std::string& name = run.plan().worker(static_cast<int>(worker)).name();
    block_times_.Add(report.block_times(), run.spec().model(), run.plan().layout(),
                     UnitOf(RegistrationOf(v1::WORKER, name)));
  }
}

}  // namespace sangam
