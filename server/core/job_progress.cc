#include "server/core/job_progress.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/learning_rate.h"
#include "common/plan/batch_cut.h"
#include "common/plan/pipeline_layout.h"
#include "common/plan/span.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

// Who opens the data that a job's workers are sent.
constexpr char kServedData[] = "coordinator (data)";

ShareSpan SharesOf(const v1::WorkerPlan& worker) {
  return {worker.shares().begin(), worker.shares().end()};
}

absl::Status NotBegun() {
  return absl::FailedPreconditionError("found a report of training before all were ready");
}

}  // namespace

bool SkippedSteps::Add(uint64_t step) {
  if (last.has_value() && step <= *last) return false;
  in_a_row = last.has_value() && step == *last + 1 ? in_a_row + 1 : 1;
  last = step;
  return true;
}

JobProgress::JobProgress(const v1::JobSpec& spec, const v1::Plan& plan)
    : spec_(spec),
      plan_(plan),
      worker_ready_(plan.worker_size()),
      server_ready_(plan.server_size()),
      finished_(plan.worker_size()) {}

void JobProgress::OnReady(PlanMember member, const v1::ReadyReport& report) {
  if (member.role == v1::WORKER) {
    worker_ready_[member.index] = report;
  } else {
    server_ready_[member.index] = true;
  }
}

void JobProgress::OnServedData(const v1::ReadyReport& report) { served_data_ = report; }

std::vector<std::string> JobProgress::NotReady() const {
  std::vector<std::string> names;
  for (int i = 0; i < plan_.worker_size(); ++i) {
    if (!worker_ready_[i].has_value()) {
      names.push_back(absl::StrCat("worker ", plan_.worker(i).name()));
    }
  }
  for (int i = 0; i < plan_.server_size(); ++i) {
    if (!server_ready_[i]) names.push_back(absl::StrCat("server ", plan_.server(i).name()));
  }
  if (spec_.data().served() && !served_data_.has_value()) names.push_back(kServedData);
  return names;
}

absl::StatusOr<JobLength> JobProgress::Begin(absl::Duration now, uint64_t first_step) {
  ASSIGN_OR_RETURN(const DataFacts facts, AgreeOnFacts(Facts(), spec_, plan_.layout()));
  ASSIGN_OR_RETURN(length_, LengthOf(spec_, facts));
  ASSIGN_OR_RETURN(learning_rate_, LearningRate::Create(spec_.optimizer(), length_.steps_total));
  if (first_step >= length_.steps_total) {
    return absl::InvalidArgumentError(
        absl::StrCat("resume_from: the checkpoint is of step ", first_step, ", the job has ",
                     length_.steps_total, " steps; raise epochs or steps to train on"));
  }
  PastProgress past;
  past.steps_done = first_step;
  MakeMerges(past);
  began_ = now;
  return length_;
}

void JobProgress::GoOn(const JobLength& length, const PastProgress& past, absl::Duration now) {
  length_ = length;
  MakeMerges(past);
  samples_ = past.samples;
  skipped_ = past.skipped;
  began_ = now - past.trained_for;
  // It was created from the same numbers when the run began.
  if (auto rate = LearningRate::Create(spec_.optimizer(), length_.steps_total); rate.ok()) {
    learning_rate_ = *std::move(rate);
  }
}

void JobProgress::MakeMerges(const PastProgress& past) {
  const BatchCut cut{spec_.batch().size(), plan_.micro_batches(), plan_.shares(),
                     length_.train_samples};
  const uint64_t terms = plan_.layout().terms_per_sample();
  losses_.emplace(cut, terms, length_.steps_total, past.steps_done);
  evaluations_.emplace(
      EvaluationMerge::TestSet{length_.test_samples, cut.MaxMicroBatchSize(), terms},
      length_.steps_total, past.last_evaluation);
}

absl::StatusOr<std::vector<v1::StepMetrics>> JobProgress::OnStep(uint32_t worker,
                                                                 const v1::StepReport& report,
                                                                 absl::Duration now) {
  RETURN_IF_ERROR(CheckReporter(worker), "losses of step %d", report.step());
  ASSIGN_OR_RETURN(const std::vector<StepLosses::CompleteStep> complete,
                   losses_->Add(report, SharesOf(plan_.worker(worker))));
  std::vector<v1::StepMetrics> result;
  for (const StepLosses::CompleteStep& step : complete) {
    samples_ += step.samples;
    v1::StepMetrics metrics;
    metrics.set_step(step.step);
    metrics.set_epoch(step.step / length_.steps_per_epoch);
    metrics.set_loss(step.loss);
    metrics.set_samples(step.samples);
    // At least a microsecond, so that a clock that has not moved gives no infinite speed.
    const double seconds = absl::ToDoubleSeconds(std::max(now - began_, absl::Microseconds(1)));
    metrics.set_samples_per_second(static_cast<double>(samples_) / seconds);
    if (learning_rate_.has_value()) metrics.set_learning_rate(learning_rate_->At(step.step));
    result.push_back(std::move(metrics));
  }
  return result;
}

absl::StatusOr<std::optional<v1::Evaluation>> JobProgress::OnEvaluation(
    uint32_t worker, const v1::EvaluationReport& report) {
  RETURN_IF_ERROR(CheckReporter(worker), "evaluation at step %d", report.step());
  const v1::WorkerPlan& plan = plan_.worker(worker);
  return evaluations_->Add(report, {plan.evaluation_part(), plan.evaluation_parts()});
}

absl::Status JobProgress::OnFinished(uint32_t worker) {
  if (!begun()) return NotBegun();
  finished_[worker] = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> JobProgress::OnSkippedStep(const v1::SkippedStepReport& report) {
  if (!begun()) return NotBegun();
  if (report.step() >= length_.steps_total) {
    return absl::InvalidArgumentError(
        absl::StrCat("skipped step: found ", report.step(), ", the job has ", length_.steps_total));
  }
  return skipped_.Add(report.step());
}

std::vector<ReportedFacts> JobProgress::Facts() const {
  if (spec_.data().served()) return {{kServedData, *served_data_}};
  // A worker without shares, or with blocks of the middle alone, need not have opened the data.
  std::vector<ReportedFacts> facts;
  for (int i = 0; i < plan_.worker_size(); ++i) {
    SANGAM_CHECK(worker_ready_[i].has_value());
    const auto worker = static_cast<uint32_t>(i);
    if (!HasFirstBlock(plan_, worker) && !HasLastBlock(plan_, worker)) continue;
    facts.push_back({absl::StrCat("worker ", plan_.worker(i).name()), *worker_ready_[i]});
  }
  return facts;
}

absl::Status JobProgress::CheckReporter(uint32_t worker) const {
  if (!begun()) return NotBegun();
  if (HasLastBlock(plan_, worker)) return absl::OkStatus();
  return absl::InvalidArgumentError("expected none from a worker without the model's last block");
}

std::vector<std::string> JobProgress::Awaited() const {
  std::vector<std::string> names;
  if (!begun()) return names;
  for (int w = 0; w < plan_.worker_size(); ++w) {
    if (finished_[static_cast<size_t>(w)] || !CheckReporter(static_cast<uint32_t>(w)).ok())
      continue;
    const ShareSpan shares = SharesOf(plan_.worker(w));
    bool all = true;
    for (uint32_t share = shares.begin; share < shares.end; ++share) {
      all = all && losses_->Knows(share);
    }
    if (!all) names.push_back(plan_.worker(w).name());
  }
  return names;
}

bool JobProgress::AllFinished() const {
  return std::find(finished_.begin(), finished_.end(), false) == finished_.end();
}

absl::Status JobProgress::CheckComplete() const {
  if (!losses_->complete()) {
    return absl::InternalError(absl::StrCat("every worker has finished, but the losses of step ",
                                            losses_->steps_done(), " of ", length_.steps_total,
                                            " have not come"));
  }
  if (spec_.evaluation().off()) return absl::OkStatus();
  if (evaluations_->num_open() != 0 || evaluations_->last_complete() != length_.steps_total) {
    return absl::InternalError(absl::StrCat(
        "every worker has finished, but an evaluation has not come whole (expected the last one at "
        "step ",
        length_.steps_total, ")"));
  }
  return absl::OkStatus();
}

}  // namespace sangam
