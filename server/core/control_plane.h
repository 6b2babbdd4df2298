#ifndef SANGAM_SERVER_CORE_CONTROL_PLANE_H_
#define SANGAM_SERVER_CORE_CONTROL_PLANE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/plan/server_memory.h"
#include "proto/admin_service.pb.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "proto/saved_state.pb.h"
#include "server/core/assignment_board.h"
#include "server/core/block_times.h"
#include "server/core/checkpoint_policy.h"
#include "server/core/job_forecast.h"
#include "server/core/job_run.h"
#include "server/core/job_table.h"
#include "server/core/log_store.h"
#include "server/core/log_writers.h"
#include "server/core/membership.h"
#include "server/core/planner.h"
#include "server/core/ready_facts.h"
#include "server/core/run_journal.h"
#include "server/core/saved_records.h"
#include "server/core/scheduler.h"
#include "server/core/trace_store.h"
#include "server/core/weight_holds.h"

namespace sangam {

using CheckpointsByJob = std::map<uint64_t, std::vector<v1::CheckpointSummary>>;

// Where a job goes on; step 0: at its beginning.
struct ResumePoint {
  uint64_t step = 0;
  uint64_t updates = 0;
  // Of the workers that trained it; empty: not known.
  std::string worker_kind = {};
  // Samples of the training set that it was trained on; 0: not known.
  uint64_t train_samples = 0;
};

// The whole coordinator without threads, locks, clocks and network: which daemons are there, which
// job runs on them, what each daemon must hold, what has become of every job.
//
// Several jobs run at once, each on workers of its own; servers are shared as far as their memory
// goes. Who starts when: see scheduler.h.
//
// Life of a job: QUEUED until the scheduler finds its daemons and the caller has made the forecasts
// for them (TakeToPlan, OnPlanned); STARTING while they prepare (phase PREPARE); RUNNING when all
// are ready and agree on the data (phase RUN); when it asks for checkpoints it lets go of its
// workers and is RUNNING until that of its last step is written; then SUCCEEDED, and its servers
// keep the weights (phase HOLD) until `keep_finished_jobs` younger jobs have succeeded or one of
// them is lost. Whatever the daemons no longer have on the board they let go of.
//
// A job fails when a daemon says that it does. When a daemon leaves or is lost, or a worker says
// that its own device is, its jobs go back to the queue instead and start again when there are
// daemons for them, in a new generation: from their newest checkpoint, else at their beginning. The
// result is the same, bit for bit. Not more often than `max_restarts`, and not when a server is
// gone and there is no checkpoint. A worker without its device stays, but gets no jobs.
//
// A daemon that drains, because its process is about to end or a user wants it, gets no new jobs.
// Those that it has stop after a step that no worker has passed, are written down there, and go
// back to the queue, from where they go on with that step: nothing is lost and nothing done twice,
// and it does not count as a loss. Where nothing can be written down they begin where they would
// after a loss, and say so.
//
// With keep_records it says with every change what is to be written down (saved_records.h), and
// Restore makes another one go on from there.
//
// Pure and not thread-safe. Errors of the calls of daemons and users are those of the services in
// proto/.
class ControlPlane {
 public:
  struct Options {
    Membership::Options membership;
    JobTable::Options jobs;
    absl::Duration starting_deadline = absl::Seconds(60);
    // How long a job that has done all steps waits for each checkpoint that is being written.
    absl::Duration last_checkpoint_deadline = absl::Minutes(10);
    // Jobs of one owner who has a name that run at once, the others wait; 0: no limit.
    size_t max_running_of_one = 0;
    // How often a job may lose daemons and start again.
    size_t max_restarts = 10;
    // Finished jobs whose weights stay on the servers.
    size_t keep_finished_jobs = 4;
    // Of each daemon's link, in one direction, as the planner reckons: 10 Gbit/s.
    double link_bytes_per_second = 1.25e9;
    TraceStore::Options traces;
    // Whether what must outlive the process is collected (Changes.records).
    bool keep_records = false;
    // The server in this process, whose pages end with it; none when the name is empty.
    v1::DaemonIdentity own_server;
    LogStore::Options logs;
  };

  // The two clocks at one moment.
  struct Moment {
    absl::Duration steady;
    absl::Time wall;
  };

  // Something worth a line in the log.
  struct Notice {
    bool warning = false;
    std::string event;
    std::vector<std::pair<std::string, std::string>> fields;  // key, value
  };

  // Who listens for what; set when it changed since the last call.
  struct Changes {
    bool assignments = false;
    bool events = false;
    bool served = false;
    bool checkpoints = false;  // TakeCheckpoint may have one
    std::vector<Notice> notices;
    // To be written before anyone is told what has changed.
    RecordChanges records;
  };

  // A job whose daemons are all there, and what its forecasts depend on. They take a while, so they
  // are made by the caller, without a lock.
  struct ToPlan {
    uint64_t job = 0;
    std::vector<ChosenDaemon> workers;  // in the order of the plan
    std::vector<ChosenDaemon> servers;
    v1::JobSpec spec;
    v1::ModelLayout layout;
    ClusterView view;
    bool again = false;  // it has started before, and may have checkpoints of its own
  };

  // A job's state that its servers hold and that is to be written down.
  struct CheckpointToWrite {
    uint64_t step = 0;
    uint64_t updates = 0;
    std::shared_ptr<const v1::Assignment> assignment;  // in phase RUN
    std::string worker_kind;                           // of its workers
  };

  explicit ControlPlane(Options options);

  // Takes the place of an earlier coordinator that wrote these records, as it was when it ended:
  // daemons are there and hold what they held, jobs go on. Nothing is scheduled until each daemon
  // has given a sign of life or counts as lost (Membership::Options.reattach). Traces and measured
  // times of blocks are not kept. To be called first, with no records for a new begin. `found`: all
  // checkpoints that the disk has; nullptr: nobody has looked.
  // Errors: DataLoss  a record makes no sense; names it. The object cannot be used then
  absl::Status Restore(const SavedRecords& records, Moment now,
                       const CheckpointsByJob* found = nullptr);

  // Daemons.
  absl::Status Register(const v1::RegisterRequest& request, Moment now);
  // A heartbeat's sign of life.
  absl::Status Renew(const v1::DaemonIdentity& daemon, Moment now);
  // The daemon's process is about to end.
  // Errors: as Membership::Check
  absl::Status Drain(const v1::DaemonIdentity& daemon, Moment now);
  // Whether a daemon drains and no job needs it any more.
  bool IsDrained(const v1::DaemonIdentity& daemon) const;
  // What the daemon must hold.
  // Errors: NotFound  it is not registered any more
  absl::StatusOr<AssignmentBoard::Entry> AssignmentsOf(const v1::DaemonIdentity& daemon) const;
  absl::Status Report(const v1::ReportRequest& request, Moment now);
  void Leave(const v1::LeaveRequest& request, Moment now);

  // The jobs whose data the coordinator must send now, and whose facts it owes (OnServedData) while
  // they prepare.
  std::vector<std::shared_ptr<const v1::Assignment>> ServedJobs() const;
  // What the coordinator found in the data of a served job, or why it cannot (go on to) serve it.
  // Of a job or generation that is over: nothing.
  void OnServedData(uint64_t job, uint64_t generation, const absl::StatusOr<v1::ReadyReport>& data,
                    Moment now);

  // The job that can start once it is planned: at most one at a time, each handed out once; nullptr
  // when there is none.
  std::shared_ptr<const ToPlan> TakeToPlan();
  // The forecasts of what was taken: starts the job, or fails it when none is feasible. When its
  // daemons are not the same any more, or it is not the next one: nothing. `resume`: of a job with
  // resume_from, or that starts `again`; an error fails it. One that starts again and does not fit
  // waits for other daemons.
  void OnPlanned(const std::shared_ptr<const ToPlan>& planned, const v1::PlanReport& report,
                 Moment now, const absl::StatusOr<ResumePoint>& resume = ResumePoint());

  // From now on somebody takes the checkpoints, those of jobs that do not ask for any too.
  void BeginCheckpoints() { keeps_checkpoints_ = true; }
  // The next checkpoint to write, of each job one at a time; OnCheckpoint must follow.
  std::optional<CheckpointToWrite> TakeCheckpoint();
  // What has become of it: all checkpoints of the job that are there now, or why it failed, which
  // never ends the job.
  void OnCheckpoint(const CheckpointToWrite& checkpoint,
                    const absl::StatusOr<std::vector<v1::CheckpointSummary>>& all, Moment now);
  // Jobs that have ended and did not ask for the checkpoints that were made of them: these may go.
  std::vector<uint64_t> TakeUnwanted();
  // Whether the checkpoints of a job may go, which need not be remembered.
  // Errors: FailedPrecondition  another job is to go on from one
  //         Unavailable         one is being written
  absl::Status CheckNotNeeded(uint64_t job) const;
  // The checkpoints of a job that the disk has, after a restart.
  void OnCheckpointsFound(uint64_t job, const std::vector<v1::CheckpointSummary>& all, Moment now);
  // The newest assignment of a job that prepares or runs, for one of its daemons.
  // Errors: NotFound  no such job, or the daemon has no part in this generation
  absl::StatusOr<std::shared_ptr<const v1::Assignment>> AssignmentOf(
      const v1::DaemonIdentity& daemon, uint64_t job, uint64_t generation) const;

  // Users.

  // The workers that the job would get if nothing else ran, or all when they are fewer: for
  // PlanJob, and for CheckFits before Submit.
  ClusterView ViewFor(const JobTable::Submission& submission) const;
  // Whether the daemons that are there are enough for the job, if nothing else ran.
  // Errors: FailedPrecondition  they are not; every reason, one a line, with the numbers.
  //                             With `await_daemons` only when none of those to come can help
  absl::Status CheckAdmission(const JobTable::Submission& submission, bool await_daemons) const;
  absl::StatusOr<v1::Job> Submit(JobTable::Submission submission, Moment now);
  absl::StatusOr<v1::Job> Cancel(const v1::CancelJobRequest& request, Moment now);
  // Forgets a job that has ended, and lets go of its weights.
  // Errors: NotFound; FailedPrecondition  it has not ended, or another one is to go on from it;
  //         Unavailable  a checkpoint of it is being written
  absl::Status Delete(const v1::DeleteJobRequest& request, Moment now);
  v1::Cluster DescribeCluster(Moment now) const;
  // Takes a daemon out of use, or back into it. Errors: as AdminService.DrainDaemon
  absl::StatusOr<v1::DrainDaemonResponse> DrainDaemon(const v1::DrainDaemonRequest& request,
                                                      Moment now);
  // The workers that the next step of a running job waits for; none when it does not run.
  std::vector<std::string> AwaitedWorkers(uint64_t job) const;
  const JobTable& jobs() const { return jobs_; }
  const TraceStore& traces() const { return traces_; }
  const LogStore& logs() const { return logs_; }

  // Keeps a line of the coordinator's own log about a job that there is.
  void KeepLine(uint64_t job, bool warning, std::string text, Moment now);

  // Does what is due: leases and deadlines. To be called several times within a lease.
  void Advance(Moment now);

  Changes TakeChanges();

 private:
  // A run that has done all steps and waits for its last checkpoints.
  struct Ending {
    JobRun::Outcome outcome;
    absl::Duration until;
  };

  // A run that stops because daemons of it drain.
  struct Stopping {
    std::string why;                                 // "worker w-1 drains"
    std::optional<uint64_t> written = std::nullopt;  // the step whose checkpoint was
    bool failed = false;                             // it could not be
    // All servers have copied the step: only they are needed, until it is written. That is not
    // taken back when nobody drains any more; those that drained may be gone then.
    bool let_go = false;
  };

  // A run that gave its daemons back after a step that was written down, when they drained. Which
  // steps before that were skipped may be told late, as of jobs that have succeeded (WeightHolds).
  struct GivenBack {
    uint64_t generation = 0;
    v1::DaemonIdentity counter;  // the server that counts votes
    uint64_t step = 0;           // the job goes on with it, or with one before
    SkippedSteps skipped;
  };

  // A job that has its daemons, in phase PREPARE or RUN.
  struct Run {
    JobRun run;
    ServerBytes server_bytes;
    // The newest assignment when the coordinator serves the job's data, else nullptr.
    std::shared_ptr<const v1::Assignment> served;
    // The newest assignment of its servers.
    std::shared_ptr<const v1::Assignment> assignment = nullptr;
    // ResumePoint::train_samples.
    uint64_t train_samples = 0;
    // In phase RUN.
    std::unique_ptr<CheckpointPolicy> checkpoints = nullptr;
    // What its workers have in common (WorkerKind).
    std::string worker_kind = {};
    // Once it has no workers any more.
    std::optional<Ending> ending = std::nullopt;
    // Once it stops for daemons that drain.
    std::optional<Stopping> stopping = std::nullopt;

    // What it still waits for is on its servers; what becomes of its workers does not matter.
    bool needs_no_workers() const {
      return ending.has_value() || (stopping.has_value() && stopping->let_go);
    }
  };

  // Parts of Restore.
  void RestoreDaemon(const v1::SavedDaemon& saved, Moment now);
  void RestoreHold(const RunJournal::Held& held);
  void RestoreRun(const RunJournal::Held& held, Moment now);
  // A daemon that the plan needs and that is not there; without_workers: a server of it.
  std::optional<PlanMember> MissingMember(const v1::Plan& plan, bool without_workers) const;
  void TakeRecords(RecordChanges* records);

  void LoseDaemon(const Membership::Gone& gone, absl::string_view how, Moment now);
  // The servers let go of the weights of a finished job.
  void ReleaseWeights(uint64_t job, absl::string_view why);
  // Says what queued jobs wait for, and which one is to be planned.
  void Schedule(Moment now);
  std::shared_ptr<const ToPlan> ToPlanOf(const StartJob& start) const;
  std::vector<ChosenDaemon> Choose(v1::DaemonRole role,
                                   const std::vector<std::string>& names) const;
  void Start(const ToPlan& planned, const v1::PlanReport& report, const ResumePoint& resume,
             Moment now);
  // What the job's workers, of which this is one, have in common (WorkerKind); empty when the
  // worker is not known (any more).
  std::string KindOf(const v1::JobSpec& spec, const std::string& worker,
                     uint64_t incarnation) const;
  // Whether the cluster has as many workers of the kind as the job asks for, busy or not.
  bool HasWorkersOfKind(const v1::JobSpec& spec, const std::string& kind) const;
  const v1::RegisterRequest& RegistrationOf(v1::DaemonRole role, const std::string& name) const;
  // Makes room for training state by letting go of old weights.
  void MakeRoom(uint64_t job, const ServerBytes& wanted);
  ClusterSnapshot Snapshot();
  // Living ones.
  std::vector<CandidateDaemon> Candidates(v1::DaemonRole role) const;
  // Takes steps that were skipped of a job that has succeeded or was given back meanwhile: the
  // server that counts votes and the workers tell by ways of their own. False: they are of no such
  // job.
  bool TakeLateSkips(const v1::ReportRequest& request, Moment now);
  bool TakeSkipsOfHeld(const v1::ReportRequest& request, Moment now);
  bool TakeSkipsOfGivenBack(const v1::ReportRequest& request, Moment now);
  // EndRun of a run that stopped after a step: what may still be told of it.
  void KeepGivenBack(const Run& run);
  // Keeps what a daemon logged about a job.
  void KeepLines(const v1::DaemonIdentity& daemon, uint64_t job, const v1::LogReport& log);
  // The run of a job, nullptr when it has none, or is in another generation.
  Run* FindRun(uint64_t job, uint64_t generation);
  std::vector<uint64_t> RunningJobs() const;
  // These ask for a run of the job; one that ends is gone afterwards.
  void Apply(uint64_t job, const JobRun::Effects& effects, Moment now);
  void BeginTraining(uint64_t job, const JobLength& length, Moment now);
  void EndRun(uint64_t job, const JobRun::Outcome& outcome, Moment now);
  // What becomes of a job whose run has this outcome: whether it may start again.
  JobRun::Outcome Settle(const JobRun& run, const JobRun::Outcome& outcome) const;
  // The job has started before, and waits until other daemons are there.
  void Postpone(uint64_t job, absl::string_view why, Moment now);
  // The worker says that it can do no more work.
  void SetFault(const v1::DaemonIdentity& worker, const v1::FailedReport& report, Moment now);
  // What servers are asked to copy follows the policy from now on.
  // `under_way`: as CheckpointPolicy::Run has it.
  void BeginCheckpoints(Run* run, uint64_t steps_total, std::optional<uint64_t> under_way,
                        Moment now);
  // Tells the servers what the policy wants, when it is news.
  void WantSnapshots(Run* run);
  void OnSnapshot(Run* run, const PlanMember& member, const v1::SnapshotReport& report, Moment now);
  // The run has succeeded. Whether it goes on until its last checkpoints are written.
  bool AwaitCheckpoints(uint64_t job, const JobRun::Outcome& outcome, Moment now);
  // Ends a run that awaits nothing any more, or for too long.
  void EndAwaited(uint64_t job, Moment now);
  // Whether a server of the plan was restored and not heard of since.
  bool AwaitsServer(const v1::Plan& plan) const;
  // The job has ended: its checkpoints are wanted only if it asked for them.
  void NoteUnwanted(uint64_t job);
  // The daemons of the plan that drain, "worker w-1 drains"; empty: none.
  std::string DrainersOf(const v1::Plan& plan) const;
  // Does what is due in a run some of whose daemons drain, or do no more; it may end.
  void AdvanceDrain(uint64_t job, Moment now);
  void AdvanceDrains(Moment now);
  // Who drains has changed.
  void OnDraining(const DaemonKey& key, absl::string_view what, Moment now);
  // What becomes of a run that has done all when the last weights are lost with a server: it does
  // the last steps again when there is something to go on from, else it has succeeded all the same.
  JobRun::Outcome WithoutPages(const JobRun& run, const PlanMember& server, absl::string_view how,
                               const JobRun::Outcome& success) const;
  // Ends the runs that await what a server held which is gone.
  void EndWithout(const v1::DaemonIdentity& server, absl::string_view how, Moment now);
  // A report that the run took, for whoever takes it up after a restart.
  void KeepReport(const Run& run, const PlanMember& member, const v1::JobReport& report,
                  const JobRun::Effects& effects);
  // Keeps what a worker of the run measured.
  void Measure(const JobRun& run, uint32_t worker, const v1::JobReport& report);
  // The servers of the run keep the weights.
  void KeepWeights(const JobRun& run);
  // Lines of these daemons about their job are kept, also when they have lost it.
  void AdmitLines(const v1::Plan& plan);
  // Every daemon of the run gets this assignment.
  void AssignAll(Run* run, const std::shared_ptr<const v1::Assignment>& assignment);
  void ChangeState(uint64_t job, v1::JobState state, absl::string_view reason, Moment now);
  void Note(bool warning, std::string event,
            std::vector<std::pair<std::string, std::string>> fields);

  const Options options_;
  Membership members_;
  JobTable jobs_;
  AssignmentBoard board_;
  std::map<uint64_t, Run> runs_;              // by job
  std::map<uint64_t, GivenBack> given_back_;  // by job, until its next run ends
  // The job that is to be planned, or is being planned by the one who took it; replaced when other
  // daemons or another job are to be planned for.
  std::shared_ptr<const ToPlan> to_plan_;
  bool to_plan_taken_ = false;
  TraceStore traces_;
  LogStore logs_;
  LogWriters log_writers_;
  BlockTimes block_times_;
  WeightHolds holds_;
  std::map<uint64_t, uint64_t> queued_bytes_;  // LargestServerBytes of the queued jobs
  // Changes with the daemons that can be had.
  uint64_t roster_ = 0;
  std::map<uint64_t, uint64_t> postponed_;  // queued jobs that do not fit those of this roster
  // Of jobs that start again: what their workers were (WorkerKind), so that the result is of one
  // kind. A coordinator that has been restarted does not know; then it is CheckResumeKind that
  // keeps the kind of the checkpoint.
  std::map<uint64_t, std::string> kept_kinds_;
  RunJournal journal_;
  bool keeps_checkpoints_ = false;
  std::set<uint64_t> unwanted_;          // see TakeUnwanted
  std::set<uint64_t> writing_;           // jobs with a checkpoint that was taken; they do not start
  std::set<DaemonKey> changed_daemons_;  // since the last TakeChanges
  uint64_t starts_ = 0;
  // What the coordinator's own record says.
  uint64_t saved_starts_ = 0;
  uint64_t saved_last_job_ = 0;
  std::optional<absl::Duration> last_advance_;
  Changes changes_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_CONTROL_PLANE_H_
