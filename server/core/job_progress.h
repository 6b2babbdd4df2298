#ifndef SANGAM_SERVER_CORE_JOB_PROGRESS_H_
#define SANGAM_SERVER_CORE_JOB_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/model/learning_rate.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/evaluation_merge.h"
#include "server/core/ready_facts.h"
#include "server/core/step_losses.h"

namespace sangam {

// A daemon's place in a plan.
struct PlanMember {
  v1::DaemonRole role = v1::DAEMON_ROLE_UNSPECIFIED;
  uint32_t index = 0;  // into Plan.worker or Plan.server
};

// Steps that a run has skipped; they are told in order, and may be told twice.
struct SkippedSteps {
  // Whether it is news.
  bool Add(uint64_t step);

  std::optional<uint64_t> last;
  uint32_t in_a_row = 0;  // one after the other, up to the last one
};

// How far a run had come when an earlier coordinator ended.
struct PastProgress {
  uint64_t steps_done = 0;
  uint64_t samples = 0;
  std::optional<uint64_t> last_evaluation;  // its step
  absl::Duration trained_for;               // wall time since the begin
  SkippedSteps skipped;
  std::vector<v1::StepMetrics> steps;  // the newest ones, in order
};

// What the daemons of one plan have reported: who is ready, losses, evaluations, who is done. Every
// report may come twice.
//
// Pure and not thread-safe. `now` is the time on a steady clock.
class JobProgress {
 public:
  // `spec` (defaults resolved) and `plan` must outlive the object.
  // REQUIRES: CheckStages(plan) is OK.
  JobProgress(const v1::JobSpec& spec, const v1::Plan& plan);

  void OnReady(PlanMember member, const v1::ReadyReport& report);
  // The coordinator has opened the data of a job whose data it serves.
  void OnServedData(const v1::ReadyReport& report);
  // "worker w-1", for each that has not reported; "coordinator (data)" for data to be served.
  std::vector<std::string> NotReady() const;

  // Compares what the readers of the data found (the workers with the first or the last block; the
  // coordinator when it serves the data) and fixes the length of the job; steps may be reported
  // from now on. REQUIRES: NotReady() is empty. Errors: InvalidArgument  as AgreeOnFacts and
  // LengthOf; or the job has no steps from `first_step` on
  absl::StatusOr<JobLength> Begin(absl::Duration now, uint64_t first_step = 0);
  // Takes up a run that had begun: in place of OnReady and Begin.
  void GoOn(const JobLength& length, const PastProgress& past, absl::Duration now);
  bool begun() const { return losses_.has_value(); }

  // Steps that every share has been reported of now, in order.
  // Errors (also below): FailedPrecondition  not begun
  //                      InvalidArgument     of a worker without the model's last block
  //                      otherwise as StepLosses and EvaluationMerge
  absl::StatusOr<std::vector<v1::StepMetrics>> OnStep(uint32_t worker, const v1::StepReport& report,
                                                      absl::Duration now);
  absl::StatusOr<std::optional<v1::Evaluation>> OnEvaluation(uint32_t worker,
                                                             const v1::EvaluationReport& report);
  absl::Status OnFinished(uint32_t worker);
  // Whether it is news.
  absl::StatusOr<bool> OnSkippedStep(const v1::SkippedStepReport& report);
  const SkippedSteps& skipped() const { return skipped_; }

  // REQUIRES: begun().
  uint64_t steps_done() const { return losses_->steps_done(); }
  std::optional<uint64_t> last_evaluation() const { return evaluations_->last_complete(); }

  // Names of the workers that have not reported all their shares of the first step that is not
  // complete; none before Begin.
  std::vector<std::string> Awaited() const;

  bool AllFinished() const;
  // Errors: Internal  every worker has finished, but a loss or an evaluation has not come
  absl::Status CheckComplete() const;

 private:
  void MakeMerges(const PastProgress& past);
  // What those found who read the data.
  std::vector<ReportedFacts> Facts() const;
  // That the worker may report losses and evaluations.
  absl::Status CheckReporter(uint32_t worker) const;

  const v1::JobSpec& spec_;
  const v1::Plan& plan_;
  std::vector<std::optional<v1::ReadyReport>> worker_ready_;
  std::vector<bool> server_ready_;
  std::optional<v1::ReadyReport> served_data_;
  std::vector<bool> finished_;
  // Set by Begin.
  JobLength length_;
  absl::Duration began_;
  std::optional<StepLosses> losses_;
  std::optional<EvaluationMerge> evaluations_;
  std::optional<LearningRate> learning_rate_;
  uint64_t samples_ = 0;
  SkippedSteps skipped_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_JOB_PROGRESS_H_
