#ifndef SANGAM_SERVER_CORE_JOB_RUN_H_
#define SANGAM_SERVER_CORE_JOB_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/job_progress.h"
#include "server/core/loss_alert.h"
#include "server/core/ready_facts.h"

namespace sangam {

// "step 7 was skipped: ...", for people.
std::string SkippedText(const v1::SkippedStepReport& report);

// One generation of a job, from the moment its daemons are told to prepare until it ends.
//
// Whose fault it is: when a server dies, the workers' links to it break, often before the server's
// lease runs out. A report of a failure that the loss of a peer could have caused is therefore held
// back for one lease; when a daemon of the job is lost meanwhile, that is the reason of the
// failure, and else the report itself. Links between the workers of a pipeline are no different.
// A daemon that is gone, or that says that its own device is lost to it, is no fault of the job:
// the outcome is PREEMPTED, the job can start again on others.
//
// Pure and not thread-safe. `now` is the time on a steady clock.
class JobRun {
 public:
  struct Options {
    absl::Duration lease = absl::Seconds(5);
    // How long the daemons may take to prepare.
    absl::Duration starting_deadline = absl::Seconds(60);
  };

  struct Outcome {
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;  // SUCCEEDED, FAILED or PREEMPTED
    std::string reason;
    bool pages_lost = false;  // PREEMPTED: with a server
    bool drained = false;     // PREEMPTED: its daemons were to give it back, nothing is wrong
  };

  // What the caller must do, in this order.
  struct Effects {
    std::optional<JobLength> run;  // all are ready: tell them to train
    std::vector<v1::StepMetrics> steps;
    std::vector<v1::Evaluation> evaluations;
    std::vector<std::string> messages;  // for people
    uint64_t skipped_steps = 0;         // more than before
    std::optional<Outcome> outcome;     // the run is over; it takes no further event
    // ResourceExhausted: the report cannot be taken yet, it is too far ahead of what another worker
    // must report first. To be sent again.
    absl::Status later;
  };

  // `prepare` is the assignment, spec and plan, that the daemons got.
  // REQUIRES: CheckStages(plan) is OK.
  JobRun(std::shared_ptr<const v1::Assignment> prepare, Options options, absl::Duration now);

  // Takes up a run that had begun before an earlier coordinator ended: `run` is the assignment, in
  // phase RUN, that the daemons have. REQUIRES: as above.
  JobRun(const std::shared_ptr<const v1::Assignment>& run, Options options,
         const PastProgress& past, absl::Duration now);

  // The place of a process in the plan; nothing when it is not part of it.
  std::optional<PlanMember> Find(const v1::DaemonIdentity& daemon) const;

  // One report of a daemon of the plan. A report that makes no sense fails the job.
  Effects OnReport(PlanMember member, const v1::JobReport& report, absl::Duration now);

  // What the coordinator found when it opened the data of a job whose data it serves, or why it
  // cannot (go on to) serve it.
  Effects OnServedData(const absl::StatusOr<v1::ReadyReport>& data, absl::Duration now);

  // A daemon of the plan is gone: `how` is "lost" or "left", `why` the reason.
  Effects OnGone(PlanMember member, absl::string_view how, absl::string_view why) const;

  // Looks at the deadlines.
  Effects OnTime(absl::Duration now) const;

  uint64_t job() const { return prepare_->plan().job(); }
  // Of both phases.
  uint64_t first_step() const { return prepare_->first_step(); }
  uint64_t first_updates() const { return prepare_->first_updates(); }
  const std::string& owner() const { return prepare_->owner(); }
  const v1::JobSpec& spec() const { return prepare_->spec(); }
  const v1::Plan& plan() const { return prepare_->plan(); }
  bool running() const { return progress_.begun(); }
  // As told to the workers; 0 before `running`.
  uint64_t steps_total() const { return steps_total_; }
  // REQUIRES (also below): running().
  uint64_t steps_done() const { return progress_.steps_done(); }
  std::vector<std::string> Awaited() const { return progress_.Awaited(); }
  // Step of the newest complete evaluation.
  std::optional<uint64_t> last_evaluation() const { return progress_.last_evaluation(); }
  const SkippedSteps& skipped() const { return progress_.skipped(); }
  // Whether a failure is held back.
  bool holds_failure() const { return held_.has_value(); }

 private:
  struct HeldFailure {
    std::string reason;
    absl::Duration until;
  };

  // "worker w-1".
  std::string NameOf(PlanMember member) const;
  // Tells all to train when nobody is missing any more.
  void BeginWhenReady(absl::Duration now, Effects* effects);
  void OnFailed(PlanMember member, const v1::FailedReport& report, absl::Duration now,
                Effects* effects);
  absl::Status OnSkippedStep(PlanMember member, const v1::SkippedStepReport& report,
                             Effects* effects);
  absl::Status OnTraining(PlanMember member, const v1::JobReport& report, absl::Duration now,
                          Effects* effects);

  const std::shared_ptr<const v1::Assignment> prepare_;
  const Options options_;
  const absl::Duration started_;
  JobProgress progress_;
  uint64_t steps_total_ = 0;
  LossAlert loss_alert_;
  std::optional<HeldFailure> held_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_JOB_RUN_H_
