#ifndef SANGAM_SERVER_CORE_JOB_TABLE_H_
#define SANGAM_SERVER_CORE_JOB_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/job_scope.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"
#include "proto/saved_state.pb.h"
#include "server/core/event_log.h"
#include "server/core/saved_records.h"

namespace sangam {

// All jobs that the coordinator remembers: what each is, where it stands and what has happened to
// it. The one place where a job changes, so that a store on disk has one thing to follow
// (TakeRecords).
//
// Pure and not thread-safe. Times are wall-clock times, for people. Everything is bounded: queued
// jobs by refusing more, ended jobs by forgetting the oldest (with its request_id), events by a
// ring for each job.
class JobTable {
 public:
  struct Options {
    size_t max_queued = 256;
    // Of one owner, when it has a name.
    size_t max_queued_of_one = 100;
    // No job gets a number up to this one.
    uint64_t last_id = 0;
    // Ended jobs that are remembered, at least 1; those whose weights servers still hold come on
    // top.
    size_t max_ended = 256;
    // Events of a job; of the oldest ones an ended job keeps fewer, see below.
    size_t max_events = 16384;
    // The newest this many ended jobs keep `max_events` events, older ones max_events_of_old.
    size_t ended_with_all_events = 16;
    size_t max_events_of_old = 256;
    // Evaluations in Job.evaluation; the newest stay.
    int max_evaluations = 1024;
    // Whether TakeRecords is called, so that changes are collected for it.
    bool keep_records = false;
  };

  // What a user submits: a checked specification with its defaults resolved.
  struct Submission {
    v1::JobSpec spec;
    v1::ModelLayout layout;
    std::string request_id;  // may be empty
    // spec.resume_from before it was resolved, which tells whether a repetition is the same.
    std::string asked_resume_from = {};
    std::string owner = {};  // Job.owner
  };

  // Some events of one job.
  struct Events {
    std::vector<v1::JobEvent> events;
    // The job has ended and its last event is among these or was before them.
    bool complete = false;
  };

  explicit JobTable(Options options) : options_(options), last_id_(options.last_id) {}

  // What has changed since the last call and is to be written down.
  void TakeRecords(RecordChanges* changes);
  // The jobs as they were when these records were written. `last_id`: no job gets a number up to
  // it. REQUIRES: the table is empty. Errors: DataLoss  a record makes no sense; names it
  absl::Status Restore(const SavedRecords& records, uint64_t last_id);
  uint64_t last_id() const { return last_id_; }

  // Queues a job and returns its id; the id of the first submission when its owner submitted it
  // before under the same request_id.
  // Errors: as FindRequest and CheckRoom
  absl::StatusOr<uint64_t> Submit(Submission submission, absl::Time now);

  // Errors: FailedPrecondition  the change is not legal; NotFound  no such job
  absl::Status ChangeState(uint64_t id, v1::JobState state, absl::string_view reason,
                           absl::Time now);

  // The job that the same owner submitted before under the same request_id; nothing: there is none
  // that is remembered. Errors: AlreadyExists  it has another specification
  absl::StatusOr<std::optional<uint64_t>> FindRequest(const Submission& submission) const;

  // Whether there is room for one more job of this owner.
  // Errors: ResourceExhausted  too many jobs are queued, in all or of the owner; names the quota
  absl::Status CheckRoom(absl::string_view owner) const;

  // Whether a job is remembered that the owner submitted under this request_id.
  bool KnowsRequest(const std::string& owner, const std::string& request_id) const;

  // The jobs that still have to read a checkpoint of this one, by its step.
  std::map<uint64_t, uint64_t> ResumersOf(uint64_t id) const;

  // Notes who a job runs on and how its model is spread: `chosen` is the forecast that the plan was
  // made for, `reason` why it was chosen.
  // REQUIRES (also below): the job exists.
  void SetPlan(uint64_t id, const v1::Plan& plan, const v1::StrategyForecast& chosen,
               absl::string_view reason);
  // The job runs on nobody any more, and will be planned anew.
  void ClearPlan(uint64_t id);
  // What was done from `step` on, which `updates` updates led to, is forgotten and done again; its
  // events stay.
  void GoBack(uint64_t id, uint64_t step, uint64_t updates);
  // The job has lost a daemon.
  void AddLoss(uint64_t id, absl::string_view reason);
  // How often it has, and why, since it last went back to a later step than the time before: a job
  // that gets on may lose as many as it will.
  std::vector<std::string> LossesOf(uint64_t id) const;
  // Of the newest step that was traced.
  void SetUtilization(uint64_t id, const v1::Utilization& utilization);
  void SetLength(uint64_t id, uint64_t steps_total, uint64_t steps_per_epoch);
  void AddStep(uint64_t id, const v1::StepMetrics& step, absl::Time now);
  void AddEvaluation(uint64_t id, const v1::Evaluation& evaluation, absl::Time now);
  void AddMessage(uint64_t id, absl::string_view message, absl::Time now);
  void AddSkippedSteps(uint64_t id, uint64_t count);
  // What a queued job waits for becomes its reason, and a message when it is news.
  void SetWaitReason(uint64_t id, absl::string_view reason, absl::Time now);
  void SetWeightsAvailable(uint64_t id, bool available);
  // Those that are there now, ascending; `news` is a step of theirs and an event, unless the job
  // has ended.
  void SetCheckpoints(uint64_t id, const std::vector<v1::CheckpointSummary>& all, uint64_t news,
                      absl::Time now);
  // Bytes on all servers together.
  void SetServerMemory(uint64_t id, uint64_t bytes);

  // Forgets a job and its request_id.
  // Errors: NotFound  no such job; FailedPrecondition  it has not ended
  absl::Status Delete(uint64_t id);

  // Nullptr: no such job. Valid until the table changes.
  const v1::Job* Get(uint64_t id) const;

  // The id for a number or for a name, which means the newest job of that name in `scope`.
  // Errors: NotFound  no such job in `scope`
  absl::StatusOr<uint64_t> Find(absl::string_view id_or_name,
                                const JobScope& scope = JobScope()) const;

  // Newest first, those in `scope` and the asked states, without layout and stages; of the
  // specification with the name, of the evaluations with the newest alone.
  v1::ListJobsResponse List(const v1::ListJobsRequest& request,
                            const JobScope& scope = JobScope()) const;

  // At most `max` events above revision `after`.
  // Errors: NotFound  no such job
  absl::StatusOr<Events> EventsAfter(uint64_t id, uint64_t after, size_t max) const;

  // The steps among the job's events since it started last, in order. REQUIRES: the job exists.
  std::vector<v1::StepMetrics> StepsOf(uint64_t id) const;

  // Oldest first.
  std::vector<uint64_t> Queued() const;
  // Those that have ended and are remembered, in the order in which they ended.
  const std::deque<uint64_t>& ended() const { return ended_; }
  // All that are remembered, by id.
  std::vector<uint64_t> Ids() const;

  size_t size() const { return jobs_.size(); }
  size_t num_request_ids() const { return request_ids_.size(); }

 private:
  using RequestKey = std::pair<std::string, std::string>;  // owner, request_id

  struct Record {
    v1::Job job;
    EventLog events;
    std::string request_id;
    std::string asked_resume_from = {};
    v1::SavedLosses losses = {};
  };

  absl::Status RestoreRecord(const RecordKey& key, const std::string& value);
  // The job's record, to be changed (Known: to be read, or for its steps).
  Record& At(uint64_t id);
  Record& Known(uint64_t id);
  // These note what changed.
  void RecordLosses(uint64_t id, const v1::SavedLosses& losses);
  void RecordDropped(uint64_t id, uint64_t first_revision, const EventLog& events);
  void Forget(uint64_t id);
  // Appends an event made ready by `fill`.
  void AddEvent(Record* record, absl::Time now, const std::function<void(v1::JobEvent*)>& fill);
  void RecordChange(Record* record, v1::JobState state, absl::string_view reason, absl::Time now);
  void ForgetOldJobs();

  const Options options_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Record> jobs_;
  std::map<RequestKey, uint64_t> request_ids_;
  std::deque<uint64_t> ended_;  // in the order in which they ended
  // Since the last TakeRecords.
  RecordChanges changes_;
  std::set<uint64_t> changed_;     // status
  std::set<uint64_t> progressed_;  // progress
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_JOB_TABLE_H_
