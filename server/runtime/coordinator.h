#ifndef SANGAM_SERVER_RUNTIME_COORDINATOR_H_
#define SANGAM_SERVER_RUNTIME_COORDINATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/job_scope.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"
#include "proto/admin_service.pb.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/assignment_board.h"
#include "server/core/control_plane.h"
#include "server/core/job_forecast.h"
#include "server/core/job_table.h"
#include "server/runtime/checkpoint_store.h"
#include "server/runtime/job_store.h"
#include "server/runtime/parameter_shard.h"
#include "server/runtime/record_writer.h"

namespace sangam {

// The coordinator: ControlPlane with a lock, a clock, a log and waits. Thread-safe.
//
// It has no thread of its own: its owner calls Advance several times within a lease, and StartReady
// as often, on another thread. Submit and StartReady make the forecasts for the job that can start,
// one at a time and without the lock, so they may take as long as Plan; calls of daemons do not.
// Calls that wait for news end by themselves; each has a bound. Errors are those of the services in
// proto/.
class Coordinator {
 public:
  struct Options {
    // Without a sign of life for this long a daemon counts as lost.
    absl::Duration lease = absl::Seconds(5);
    // How long the daemons of a job may take to prepare.
    absl::Duration starting_deadline = absl::Seconds(60);
    // Finished jobs whose weights stay on the servers.
    size_t keep_finished_jobs = 4;
    // Jobs that may wait at once, in all and of one owner who has a name.
    size_t max_queued = 256;
    size_t max_queued_of_one = 100;
    // Jobs of such an owner that run at once, the others wait; 0: no limit.
    size_t max_running_of_one = 0;
    RefusalCounts* counts = nullptr;  // may be nullptr; outlives the coordinator
    // Of each daemon's link, in one direction, as the planner reckons: 10 Gbit/s.
    double link_bytes_per_second = 1.25e9;
    // The longest sleep between two looks at the clock, which need not run with the machine's.
    absl::Duration longest_sleep = absl::Milliseconds(200);
    // The server in this process, whose pages end with it; none when the name is empty.
    v1::DaemonIdentity own_server;
    // No job gets a number up to this one.
    uint64_t last_job = 0;
    // Whether Restore will be called.
    bool keep_records = false;
  };

  // Told which jobs' data to send from now on, with their newest assignments.
  using Serving = std::function<void(std::vector<std::shared_ptr<const v1::Assignment>>)>;

  // Some events of one job.
  struct Events {
    std::vector<v1::JobEvent> events;
    bool complete = false;  // the job has ended and there are no later ones
  };

  // Some lines of one job's log.
  struct Logs {
    std::vector<v1::LogLine> lines;
    uint64_t revision = 0;  // where to go on
    bool ended = false;     // the job has; some of its daemons' last lines may still come
  };

  // `clock` must outlive the coordinator.
  Coordinator(const Options& options, const Clock* clock);

  // Goes on where the coordinator ended that wrote the store, and writes every change to it from
  // now on; it must outlive this object. Nobody is told of a change before it is written. While the
  // store cannot be written, calls that change something, and those that wait for news, end with
  // Unavailable. To be called before all else but SetServing and SetCheckpoints. Without it nothing
  // is written. Errors: DataLoss     a record makes no sense; names it
  //         Unavailable  the store cannot be written
  //         others       as RecordStore::Load
  absl::Status Restore(RecordStore* store);

  // Who opens and sends the data of jobs with data.served; nobody when empty, then such a job
  // fails. It is called when the list has changed, by whichever thread changed it, one call at a
  // time and without the lock, so it may call OnServedData at once.
  void SetServing(Serving serving);
  // What was found in the data of a served job, or why it cannot (go on to) be served. Of a job or
  // generation that is over: nothing.
  void OnServedData(uint64_t job, uint64_t generation,
                    const absl::StatusOr<v1::ReadyReport>& facts);

  // Where checkpoints are; none without. `wake`: called on any thread, without the lock, when
  // TakeCheckpoint or TakeUnwanted may have something. `lasting`: they outlive the process, so that
  // users may ask for them; when not, they are only for jobs that go on elsewhere. To be called
  // before the first job and before Restore; `store` must outlive the object.
  void SetCheckpoints(const CheckpointStore* store, std::function<void()> wake,
                      bool lasting = true);
  // As ControlPlane's.
  std::optional<ControlPlane::CheckpointToWrite> TakeCheckpoint();
  void OnCheckpoint(const ControlPlane::CheckpointToWrite& checkpoint,
                    const absl::StatusOr<std::vector<v1::CheckpointSummary>>& all);
  std::vector<uint64_t> TakeUnwanted();
  // Steps of the job's checkpoints that other jobs are still to begin with.
  std::set<uint64_t> StepsToKeep(uint64_t job) const;
  // For a server that begins a job from a checkpoint: calls `page` with its pages.
  // Errors: as ClusterService.ReadCheckpoint and `page`
  absl::Status ReadCheckpoint(const v1::ReadCheckpointRequest& request,
                              const TakeStatePage& page) const;

  // For daemons. `request.address` is complete, "host:port".
  absl::StatusOr<v1::RegisterResponse> Register(const v1::RegisterRequest& request);
  // Waits for news at most as long as the request says, and never longer than a third of the lease.
  absl::StatusOr<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request);
  absl::Status Report(const v1::ReportRequest& request);
  void Leave(const v1::LeaveRequest& request);

  // For users. What is not in `scope` counts as not there. `owner`: of the new job.
  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request, const std::string& owner = "",
                                 const JobScope& scope = JobScope());
  // What would become of the job, without submitting it.
  absl::StatusOr<v1::PlanReport> Plan(const v1::PlanJobRequest& request) const;
  absl::StatusOr<v1::Job> Get(absl::string_view id_or_name,
                              const JobScope& scope = JobScope()) const;
  absl::StatusOr<v1::JobTrace> Trace(absl::string_view id_or_name,
                                     const JobScope& scope = JobScope()) const;
  v1::ListJobsResponse List(const v1::ListJobsRequest& request,
                            const JobScope& scope = JobScope()) const;
  absl::StatusOr<v1::Job> Cancel(const v1::CancelJobRequest& request,
                                 const JobScope& scope = JobScope());
  absl::Status Delete(const v1::DeleteJobRequest& request, const JobScope& scope = JobScope());
  v1::Cluster DescribeCluster() const;
  absl::StatusOr<v1::DrainDaemonResponse> DrainDaemon(const v1::DrainDaemonRequest& request);
  // As ControlPlane's.
  std::vector<std::string> AwaitedWorkers(uint64_t job) const;
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(
      const v1::ListCheckpointsRequest& request, const JobScope& scope = JobScope()) const;
  absl::StatusOr<v1::Checkpoint> VerifyCheckpoint(const v1::VerifyCheckpointRequest& request,
                                                  const JobScope& scope = JobScope()) const;
  absl::StatusOr<v1::Checkpoint> GetCheckpoint(const v1::GetCheckpointRequest& request,
                                               const JobScope& scope = JobScope()) const;

  // Events above revision `after`, at most `max_events`; waits for one at most `max_wait`, then
  // comes back without.
  // Errors: NotFound     no such job
  //         Unavailable  the coordinator stops
  absl::StatusOr<Events> WaitForEvents(uint64_t job, uint64_t after, size_t max_events,
                                       absl::Duration max_wait) const;

  // Lines above revision `after`, at most `max_lines`, of one daemon ("worker w-1") or of all when
  // it is empty; waits and errors as WaitForEvents.
  absl::StatusOr<Logs> WaitForLogs(uint64_t job, uint64_t after, absl::string_view daemon,
                                   size_t max_lines, absl::Duration max_wait) const;

  // Advance and StartReady.
  void Tick();
  // Ends leases and deadlines that are due.
  void Advance();
  // Starts the job that can start; takes as long as its forecasts, and as it takes to read the
  // checkpoint that it goes on from.
  void StartReady();

  // Ends every wait, now and later, with Unavailable.
  void Shutdown();

 private:
  using Moment = ControlPlane::Moment;

  Moment Now() const { return {clock_.Steady(), clock_.Wall()}; }

  // Calls `change(control plane, now)` under the lock, wakes who waits, logs what happened, tells
  // the one who serves data, and waits until it is written. A result that can be an error is
  // Unavailable when it is not.
  template <typename Change>
  auto Do(Change change);
  // That one more job may be queued.
  absl::Status CheckRoom(const std::string& owner) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // That there is a place for checkpoints.
  absl::Status CheckStateDir(absl::string_view what) const;
  // Checks what the job asks of checkpoints; its resume_from becomes "<job>/<step>".
  absl::Status PrepareCheckpoints(JobTable::Submission* submission, const JobScope& scope) const;
  // Removes the checkpoints of a job that is not remembered. Errors: `unknown` when there are none
  absl::Status DeleteForgotten(const std::string& id_or_name, const JobScope& scope,
                               const absl::Status& unknown) const;
  // Where the job begins: its newest checkpoint that is not damaged when it starts again, else as
  // its resume_from says, else at step 0.
  absl::StatusOr<ResumePoint> FindResumePoint(const ControlPlane::ToPlan& job) const;
  void WakeCheckpoints();
  // Whether the job can run on the daemons that are there; every reason why not.
  absl::Status CheckAdmission(const JobTable::Submission& submission, bool await_daemons) const;
  // What the planner must know; it works without the lock.
  ClusterView ViewFor(const JobTable::Submission& submission) const;
  // Tells the one who serves data as long as there is news; at once when another call does it.
  void TellServing();
  // Waits until what was changed up to this ticket is written.
  absl::Status AwaitWritten(uint64_t ticket) const;
  // The ticket of what has been changed so far.
  uint64_t NewestTicket() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has what changed written, wakes who waits for it; returns what is to be logged.
  std::vector<ControlPlane::Notice> Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::unique_ptr<RecordWriter> writer_;  // set before the first call; nullptr: nothing is written
  const CheckpointStore* checkpoints_ = nullptr;  // set before the first job
  bool lasting_checkpoints_ = false;              // likewise
  std::function<void()> wake_checkpoints_;        // likewise
  mutable CondVar assignments_changed_;
  mutable CondVar events_changed_;
  ControlPlane control_ ABSL_GUARDED_BY(mutex_);
  Serving serving_ ABSL_GUARDED_BY(mutex_);
  bool checkpoints_ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool planning_ ABSL_GUARDED_BY(mutex_) = false;
  bool serving_changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool telling_serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_COORDINATOR_H_
