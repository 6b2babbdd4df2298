#include "server/core/job_run.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "server/core/block_times.h"
#include "server/core/daemon_key.h"
#include "server/core/loss_alert.h"
#include "server/core/trace_store.h"

namespace sangam {
namespace {

// A job that skips so many steps one after the other will not recover.
constexpr uint32_t kMaxSkippedInARow = 20;

JobRun::Outcome Failed(std::string reason) { return {v1::FAILED, std::move(reason)}; }

// Whether the loss of another daemon of the job shows as this code while the job runs: its
// connections break, or the process that took its place does not know the job.
bool MayComeFromPeer(int code, bool running) {
  const auto status = static_cast<absl::StatusCode>(code);
  if (status == absl::StatusCode::kUnavailable) return true;
  return running && (status == absl::StatusCode::kDeadlineExceeded ||
                     status == absl::StatusCode::kNotFound || status == absl::StatusCode::kAborted);
}

}  // namespace

std::string SkippedText(const v1::SkippedStepReport& report) {
  return absl::StrCat("step ", report.step(),
                      " was skipped: the gradient is not finite: ", report.why());
}

JobRun::JobRun(std::shared_ptr<const v1::Assignment> prepare, Options options, absl::Duration now)
    : prepare_(std::move(prepare)),
      options_(options),
      started_(now),
      progress_(prepare_->spec(), prepare_->plan()),
      loss_alert_(prepare_->spec().loss_alert()) {}

JobRun::JobRun(const std::shared_ptr<const v1::Assignment>& run, Options options,
               const PastProgress& past, absl::Duration now)
    : JobRun(run, options, now) {
  steps_total_ = run->steps_total();
  progress_.GoOn(
      {run->steps_total(), run->steps_per_epoch(), run->train_samples(), run->test_samples()}, past,
      now);
  // What it says was said then.
  for (const v1::StepMetrics& step : past.steps) {
    loss_alert_.Add(step.step(), step.loss(), step.samples());
  }
}

std::optional<PlanMember> JobRun::Find(const v1::DaemonIdentity& daemon) const {
  const auto is_it = [&daemon](const auto& member) {
    return member.name() == daemon.name() && member.incarnation() == daemon.incarnation();
  };
  if (daemon.role() == v1::WORKER) {
    for (int i = 0; i < plan().worker_size(); ++i) {
      if (is_it(plan().worker(i))) return PlanMember{v1::WORKER, static_cast<uint32_t>(i)};
    }
  } else if (daemon.role() == v1::SERVER) {
    for (int i = 0; i < plan().server_size(); ++i) {
      if (is_it(plan().server(i))) return PlanMember{v1::SERVER, static_cast<uint32_t>(i)};
    }
  }
  return std::nullopt;
}

JobRun::Effects JobRun::OnReport(PlanMember member, const v1::JobReport& report,
                                 absl::Duration now) {
  Effects effects;
  switch (report.kind_case()) {
    case v1::JobReport::kReady:
      if (running()) return effects;
      progress_.OnReady(member, report.ready());
      BeginWhenReady(now, &effects);
      return effects;
    case v1::JobReport::kFailed:
      OnFailed(member, report.failed(), now, &effects);
      return effects;
    default:
      break;
  }
  if (const absl::Status status = OnTraining(member, report, now, &effects);
      absl::IsResourceExhausted(status)) {
    effects.later = WithContext(status, NameOf(member));
    return effects;
  } else if (!status.ok()) {
    effects.outcome = Failed(
        absl::StrCat(NameOf(member), " sent a report that does not fit: ", status.message()));
    return effects;
  }
  if (!effects.outcome.has_value() && progress_.AllFinished()) {
    const absl::Status complete = progress_.CheckComplete();
    effects.outcome = complete.ok() ? Outcome{v1::SUCCEEDED, "all steps done"}
                                    : Failed(std::string(complete.message()));
  }
  return effects;
}

JobRun::Effects JobRun::OnServedData(const absl::StatusOr<v1::ReadyReport>& data,
                                     absl::Duration now) {
  Effects effects;
  if (!data.ok()) {
    // Nobody else's loss can have caused it.
    effects.outcome = Failed(
        absl::StrCat("coordinator (data) failed: ", absl::StatusCodeToString(data.status().code()),
                     ": ", data.status().message()));
  } else if (!running()) {
    progress_.OnServedData(*data);
    BeginWhenReady(now, &effects);
  }
  return effects;
}

JobRun::Effects JobRun::OnGone(PlanMember member, absl::string_view how,
                               absl::string_view why) const {
  Effects effects;
  effects.outcome =
      Outcome{v1::PREEMPTED, absl::StrCat(NameOf(member), " ", how, why.empty() ? "" : ": ", why),
              member.role == v1::SERVER && running()};
  return effects;
}

JobRun::Effects JobRun::OnTime(absl::Duration now) const {
  Effects effects;
  if (held_.has_value() && now >= held_->until) {
    effects.outcome = Failed(held_->reason);
  } else if (!running() && now - started_ >= options_.starting_deadline) {
    effects.outcome = Failed(absl::StrFormat("not ready within %g s: %s",
                                             absl::ToDoubleSeconds(options_.starting_deadline),
                                             absl::StrJoin(progress_.NotReady(), ", ")));
  }
  return effects;
}

std::string JobRun::NameOf(PlanMember member) const {
  const int index = static_cast<int>(member.index);
  return ToString(DaemonKey{member.role, member.role == v1::WORKER ? plan().worker(index).name()
                                                                   : plan().server(index).name()});
}

void JobRun::BeginWhenReady(absl::Duration now, Effects* effects) {
  if (!progress_.NotReady().empty()) return;
  absl::StatusOr<JobLength> length = progress_.Begin(now, prepare_->first_step());
  if (length.ok()) {
    steps_total_ = length->steps_total;
    effects->run = *length;
  } else {
    effects->outcome = Failed(std::string(length.status().message()));
  }
}

void JobRun::OnFailed(PlanMember member, const v1::FailedReport& report, absl::Duration now,
                      Effects* effects) {
  const auto code = static_cast<absl::StatusCode>(report.code());
  if (report.daemon_at_fault() && member.role == v1::WORKER) {
    effects->outcome = Outcome{
        v1::PREEMPTED, absl::StrCat(NameOf(member), " has lost its device: ",
                                    absl::StatusCodeToString(code), ": ", report.message())};
    return;
  }
  std::string reason = absl::StrCat(NameOf(member), " failed: ", absl::StatusCodeToString(code),
                                    ": ", report.message());
  if (!MayComeFromPeer(report.code(), running())) {
    effects->outcome = Failed(std::move(reason));
  } else if (!held_.has_value()) {
    held_ = HeldFailure{std::move(reason), now + options_.lease};
  }
}

absl::Status JobRun::OnSkippedStep(PlanMember member, const v1::SkippedStepReport& report,
                                   Effects* effects) {
  if (member.role != v1::SERVER || member.index != 0) {
    return absl::InvalidArgumentError(
        "found a skipped step, expected it from the server that counts votes alone");
  }
  ASSIGN_OR_RETURN(const bool news, progress_.OnSkippedStep(report));
  if (!news) return absl::OkStatus();
  effects->skipped_steps = 1;
  effects->messages.push_back(SkippedText(report));
  if (progress_.skipped().in_a_row >= kMaxSkippedInARow) {
    effects->outcome =
        Failed(absl::StrCat("the last ", kMaxSkippedInARow, " steps were skipped, up to step ",
                            report.step(), ": the gradient is not finite: ", report.why()));
  }
  return absl::OkStatus();
}

absl::Status JobRun::OnTraining(PlanMember member, const v1::JobReport& report, absl::Duration now,
                                Effects* effects) {
  if (report.kind_case() == v1::JobReport::kSkippedStep) {
    return OnSkippedStep(member, report.skipped_step(), effects);
  }
  if (member.role != v1::WORKER) {
    return absl::InvalidArgumentError("expected ready or failed from a server");
  }
  switch (report.kind_case()) {
    case v1::JobReport::kStep: {
      ASSIGN_OR_RETURN(effects->steps, progress_.OnStep(member.index, report.step(), now));
      for (const v1::StepMetrics& step : effects->steps) {
        std::optional<std::string> alert =
            loss_alert_.Add(step.step(), step.loss(), step.samples());
        if (alert.has_value()) effects->messages.push_back(*std::move(alert));
      }
      return absl::OkStatus();
    }
    case v1::JobReport::kEvaluation: {
      ASSIGN_OR_RETURN(std::optional<v1::Evaluation> evaluation,
                       progress_.OnEvaluation(member.index, report.evaluation()));
      if (evaluation.has_value()) effects->evaluations.push_back(*std::move(evaluation));
      return absl::OkStatus();
    }
    case v1::JobReport::kFinished:
      return progress_.OnFinished(member.index);
    case v1::JobReport::kTrace:
      return TraceStore::Check(report.trace(), plan(), steps_total_);
    case v1::JobReport::kBlockTimes:
      return BlockTimes::Check(report.block_times(), spec().model());
    default:
      return absl::InvalidArgumentError(
          "found a report of no kind, expected ready, failed, step, evaluation, finished, trace or "
          "block times");
  }
}

}  // namespace sangam
