#include "server/runtime/coordinator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/job_log.h"
#include "common/base/job_scope.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/errors/error_details.h"
#include "common/model/field_fault.h"
#include "common/model/job_check.h"
#include "common/model/model_layout.h"
#include "common/plan/forecast.h"
#include "common/plan/page_map.h"
#include "proto/admin_service.pb.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/core/assignment_board.h"
#include "server/core/control_plane.h"
#include "server/core/job_forecast.h"
#include "server/core/job_state.h"
#include "server/core/job_table.h"
#include "server/core/log_store.h"
#include "server/core/resume_check.h"
#include "server/core/saved_records.h"
#include "server/runtime/checkpoint_input.h"
#include "server/runtime/checkpoint_store.h"
#include "server/runtime/job_store.h"
#include "server/runtime/parameter_shard.h"
#include "server/runtime/record_writer.h"

namespace sangam {
namespace {

constexpr size_t kMaxSpecBytes = size_t{1024} * 1024;
// Of the specification as it will run, with its layout: 512 jobs are remembered, and the
// assignments of the few that a server holds at once are one message.
constexpr size_t kMaxExpandedBytes = size_t{8} * 1024 * 1024;
constexpr size_t kMaxRequestIdBytes = 128;

ControlPlane::Options ToControlOptions(const Coordinator::Options& options) {
  ControlPlane::Options control;
  control.membership.lease = options.lease;
  control.starting_deadline = options.starting_deadline;
  control.keep_finished_jobs = options.keep_finished_jobs;
  control.link_bytes_per_second = options.link_bytes_per_second;
  control.keep_records = options.keep_records;
  control.own_server = options.own_server;
  control.jobs.last_id = options.last_job;
  control.jobs.max_queued = options.max_queued;
  control.jobs.max_queued_of_one = options.max_queued_of_one;
  control.max_running_of_one = options.max_running_of_one;
  return control;
}

// The checkpoint that the assignment begins with: the one of spec.resume_from, or the job's own.
std::string FirstCheckpoint(const v1::Assignment& assignment) {
  const std::string step = absl::StrCat("/", assignment.first_step());
  const std::string& resume_from = assignment.spec().resume_from();
  return absl::EndsWith(resume_from, step) ? resume_from
                                           : absl::StrCat(assignment.plan().job(), step);
}

absl::Status Stopping() {
  return WithReason(absl::UnavailableError("the coordinator stops"), "STOPPING");
}

std::string FieldsOf(const ControlPlane::Notice& notice) {
  std::string fields;
  for (const auto& [key, value] : notice.fields) {
    absl::StrAppend(&fields, fields.empty() ? "" : " ", key, "=", LogValue(value));
  }
  return fields;
}

// What is about a job is kept in its log already.
void LogNotices(const std::vector<ControlPlane::Notice>& notices) {
  for (const ControlPlane::Notice& notice : notices) {
    LogUnobserved(notice.warning ? LogLevel::kWarning : LogLevel::kInfo, notice.event,
                  FieldsOf(notice));
  }
}

// The job as it will run, or every fault of it.
absl::StatusOr<JobTable::Submission> Validate(const v1::JobSpec& spec,
                                              const std::string& request_id) {
  if (request_id.size() > kMaxRequestIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "request_id: found ", request_id.size(), " bytes, expected at most ", kMaxRequestIdBytes));
  }
  if (spec.ByteSizeLong() > kMaxSpecBytes) {
    return absl::InvalidArgumentError(absl::StrCat("spec: found ", spec.ByteSizeLong(),
                                                   " bytes, expected at most ", kMaxSpecBytes));
  }
  RETURN_IF_ERROR(ToStatus(CheckJobSpec(spec)));
  JobTable::Submission submission;
  submission.spec = ResolveDefaults(spec);
  ASSIGN_OR_RETURN(submission.layout,
                   BuildModelLayout(submission.spec.model(), submission.spec.loss()));
  const size_t expanded = submission.spec.ByteSizeLong() + submission.layout.ByteSizeLong();
  if (expanded > kMaxExpandedBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.block: found ", expanded,
                     " bytes once every layer is written out, expected at most ", kMaxExpandedBytes,
                     "; the model has too many layers"));
  }
  submission.request_id = request_id;
  submission.asked_resume_from = spec.resume_from();
  return submission;
}

}  // namespace

Coordinator::Coordinator(const Options& options, const Clock* clock)
    : options_(options), clock_(*clock), control_(ToControlOptions(options)) {}

template <typename Change>
auto Coordinator::Do(Change change) {
  std::vector<ControlPlane::Notice> notices;
  uint64_t ticket = 0;
  auto locked = [this, &change, &notices, &ticket] {
    MutexLock lock(&mutex_);
    auto result = change(&control_, Now());
    notices = Publish();
    ticket = NewestTicket();
    return result;
  };
  auto result = locked();
  LogNotices(notices);
  TellServing();
  WakeCheckpoints();
  const absl::Status written = AwaitWritten(ticket);
  if constexpr (std::is_constructible_v<decltype(result), absl::Status>) {
    if (!written.ok()) return decltype(result)(written);
  }
  return result;
}

absl::Status Coordinator::Restore(RecordStore* store) {
  ASSIGN_OR_RETURN(const SavedRecords records, store->Load());
  writer_ = std::make_unique<RecordWriter>(store);
  CheckpointsByJob found;
  if (checkpoints_ != nullptr) {
    for (const uint64_t job : checkpoints_->Jobs()) found[job] = checkpoints_->SummariesOf(job);
  }
  const CheckpointsByJob* const looked = checkpoints_ == nullptr ? nullptr : &found;
  return Do([&records, looked](ControlPlane* control, Moment now) {
    return control->Restore(records, now, looked);
  });
}

std::set<uint64_t> Coordinator::StepsToKeep(uint64_t job) const {
  MutexLock lock(&mutex_);
  std::set<uint64_t> steps;
  for (const auto& [step, resumer] : control_.jobs().ResumersOf(job)) steps.insert(step);
  return steps;
}

absl::Status Coordinator::AwaitWritten(uint64_t ticket) const {
  return writer_ == nullptr ? absl::OkStatus() : writer_->Await(ticket);
}

uint64_t Coordinator::NewestTicket() const { return writer_ == nullptr ? 0 : writer_->added(); }

void Coordinator::StartReady() {
  for (;;) {
    std::shared_ptr<const ControlPlane::ToPlan> job;
    {
      MutexLock lock(&mutex_);
      if (stopping_ || planning_) return;
      job = control_.TakeToPlan();
      if (job == nullptr) return;
      planning_ = true;
    }
    const v1::PlanReport report =
        MakeForecasts(job->spec, job->layout, job->view.facts, job->view.measured);
    const absl::StatusOr<ResumePoint> resume = FindResumePoint(*job);
    Do([&](ControlPlane* control, Moment now) {
      control->OnPlanned(job, report, now, resume);
      return 0;
    });
    MutexLock lock(&mutex_);
    planning_ = false;
  }
}

void Coordinator::TellServing() {
  for (;;) {
    Serving serving;
    std::vector<std::shared_ptr<const v1::Assignment>> jobs;
    {
      MutexLock lock(&mutex_);
      if (!serving_changed_ || telling_serving_) return;
      serving_changed_ = false;
      telling_serving_ = true;
      serving = serving_;
      jobs = control_.ServedJobs();
    }
    if (serving != nullptr) {
      serving(std::move(jobs));
    } else {
      for (const auto& job : jobs) {
        OnServedData(job->plan().job(), job->plan().generation(),
                     absl::FailedPreconditionError(
                         "data.served: found true, but this coordinator serves no data; let the "
                         "workers read it (data.served: false)"));
      }
    }
    MutexLock lock(&mutex_);
    telling_serving_ = false;
  }
}

std::vector<ControlPlane::Notice> Coordinator::Publish() {
  ControlPlane::Changes changes = control_.TakeChanges();
  for (const ControlPlane::Notice& notice : changes.notices) {
    const std::string text = absl::StrCat(notice.event, " ", FieldsOf(notice));
    const std::optional<uint64_t> job = JobOfLine(text);
    if (job.has_value()) control_.KeepLine(*job, notice.warning, text, Now());
  }
  ControlPlane::Changes logged = control_.TakeChanges();
  if (logged.events) changes.events = true;
  if (writer_ != nullptr) {
    writer_->Add(std::move(changes.records));
    writer_->Add(std::move(logged.records));
  }
  if (changes.assignments) assignments_changed_.SignalAll();
  if (changes.events) events_changed_.SignalAll();
  if (changes.served) serving_changed_ = true;
  if (changes.checkpoints) checkpoints_ready_ = true;
  return std::move(changes.notices);
}

void Coordinator::SetCheckpoints(const CheckpointStore* store, std::function<void()> wake,
                                 bool lasting) {
  checkpoints_ = store;
  lasting_checkpoints_ = lasting;
  {
    MutexLock lock(&mutex_);
    control_.BeginCheckpoints();
  }
  wake_checkpoints_ = std::move(wake);
}

void Coordinator::WakeCheckpoints() {
  {
    MutexLock lock(&mutex_);
    if (!checkpoints_ready_) return;
    checkpoints_ready_ = false;
  }
  if (wake_checkpoints_ != nullptr) wake_checkpoints_();
}

std::optional<ControlPlane::CheckpointToWrite> Coordinator::TakeCheckpoint() {
  return Do([](ControlPlane* control, Moment /*now*/) { return control->TakeCheckpoint(); });
}

std::vector<uint64_t> Coordinator::TakeUnwanted() {
  return Do([](ControlPlane* control, Moment /*now*/) { return control->TakeUnwanted(); });
}

void Coordinator::OnCheckpoint(const ControlPlane::CheckpointToWrite& checkpoint,
                               const absl::StatusOr<std::vector<v1::CheckpointSummary>>& all) {
  Do([&](ControlPlane* control, Moment now) {
    control->OnCheckpoint(checkpoint, all, now);
    return 0;
  });
}

absl::Status Coordinator::ReadCheckpoint(const v1::ReadCheckpointRequest& request,
                                         const TakeStatePage& page) const {
  std::shared_ptr<const v1::Assignment> assignment;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(assignment,
                     control_.AssignmentOf(request.daemon(), request.job(), request.generation()));
  }
  if (checkpoints_ == nullptr || assignment->first_step() == 0) {
    return absl::NotFoundError(
        absl::StrCat("job ", request.job(), " does not go on from a checkpoint"));
  }
  ASSIGN_OR_RETURN(const CheckpointStore::Found found,
                   checkpoints_->Find(FirstCheckpoint(*assignment)));
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointInput> input,
                   CheckpointInput::Open(found.folder));
  ASSIGN_OR_RETURN(const PageMap map, PageMap::Create(assignment->plan()));
  const v1::Plan& plan = assignment->plan();
  for (uint32_t segment = 0; segment < map.num_segments(); ++segment) {
    for (const PageRange& range : map.pages(segment)) {
      if (plan.server(static_cast<int>(range.server)).name() != request.daemon().name()) continue;
      ASSIGN_OR_RETURN(const std::string payload,
                       input->Read(segment, range.first_element, range.element_count), "%s",
                       found.folder);
      v1::FrameHeader header;
      header.set_job(request.job());
      header.set_generation(request.generation());
      header.set_step(assignment->first_step());
      header.set_segment(segment);
      header.set_first_element(range.first_element);
      header.set_element_count(range.element_count);
      header.set_encoding(v1::ENCODING_FP32);
      header.set_kind(v1::FRAME_KIND_STATE);
      RETURN_IF_ERROR(page(header, payload));
    }
  }
  return absl::OkStatus();
}

absl::Status Coordinator::CheckStateDir(absl::string_view what) const {
  if (checkpoints_ != nullptr && lasting_checkpoints_) return absl::OkStatus();
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        what,
                        ": this coordinator has no place for checkpoints; start it with "
                        "--state_dir=DIR")),
                    "NO_STATE_DIR");
}

absl::Status Coordinator::PrepareCheckpoints(JobTable::Submission* submission,
                                             const JobScope& scope) const {
  v1::JobSpec* const spec = &submission->spec;
  if (spec->has_checkpoint()) RETURN_IF_ERROR(CheckStateDir("checkpoint"));
  if (spec->resume_from().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckStateDir("resume_from"));
  ASSIGN_OR_RETURN(const CheckpointStore::Found found,
                   checkpoints_->FindToResume(spec->resume_from(), scope), "resume_from");
  for (const std::string& skipped : found.skipped) {
    LogWarning("damaged checkpoint passed over", "job=%d why=%s", found.manifest.job,
               LogValue(skipped));
  }
  RETURN_IF_ERROR(ToStatus(CheckResume(*spec, found.manifest.spec)));
  spec->set_resume_from(absl::StrCat(found.manifest.job, "/", found.manifest.step));
  return absl::OkStatus();
}

absl::StatusOr<ResumePoint> Coordinator::FindResumePoint(const ControlPlane::ToPlan& job) const {
  const std::string& resume_from = job.spec.resume_from();
  if (job.again && checkpoints_ != nullptr) {
    const absl::StatusOr<CheckpointStore::Found> own =
        checkpoints_->FindToResume(absl::StrCat(job.job));
    if (own.ok()) {
      for (const std::string& skipped : own->skipped) {
        LogWarning("damaged checkpoint passed over", "job=%d why=%s", job.job, LogValue(skipped));
      }
      return ResumePoint{own->manifest.step, own->manifest.updates, own->manifest.worker_kind,
                         own->manifest.train_samples};
    }
    // Without one the job begins anew, which costs time alone.
    if (!absl::IsNotFound(own.status())) {
      LogWarning("no checkpoint to go on from", "job=%d status=%s", job.job,
                 LogValue(own.status().ToString()));
    }
  }
  if (resume_from.empty()) return ResumePoint();
  RETURN_IF_ERROR(CheckStateDir("resume_from"));
  ASSIGN_OR_RETURN(const CheckpointStore::Found found, checkpoints_->Find(resume_from));
  return ResumePoint{found.manifest.step, found.manifest.updates, found.manifest.worker_kind,
                     found.manifest.train_samples};
}

absl::StatusOr<v1::ListCheckpointsResponse> Coordinator::ListCheckpoints(
    const v1::ListCheckpointsRequest& request, const JobScope& scope) const {
  RETURN_IF_ERROR(CheckStateDir("checkpoints"));
  ASSIGN_OR_RETURN(std::vector<v1::Checkpoint> all, checkpoints_->List(request.job(), scope));
  v1::ListCheckpointsResponse response;
  for (v1::Checkpoint& checkpoint : all) *response.add_checkpoint() = std::move(checkpoint);
  return response;
}

absl::StatusOr<v1::Checkpoint> Coordinator::VerifyCheckpoint(
    const v1::VerifyCheckpointRequest& request, const JobScope& scope) const {
  RETURN_IF_ERROR(CheckStateDir("checkpoints"));
  return checkpoints_->Verify(request.checkpoint(), scope);
}

absl::StatusOr<v1::Checkpoint> Coordinator::GetCheckpoint(const v1::GetCheckpointRequest& request,
                                                          const JobScope& scope) const {
  RETURN_IF_ERROR(CheckStateDir("checkpoints"));
  return checkpoints_->Get(request.checkpoint(), scope);
}

void Coordinator::SetServing(Serving serving) {
  {
    MutexLock lock(&mutex_);
    serving_ = std::move(serving);
    serving_changed_ = true;
  }
  TellServing();
}

void Coordinator::OnServedData(uint64_t job, uint64_t generation,
                               const absl::StatusOr<v1::ReadyReport>& facts) {
  Do([job, generation, &facts](ControlPlane* control, Moment now) {
    control->OnServedData(job, generation, facts, now);
    return 0;
  });
}

absl::StatusOr<v1::RegisterResponse> Coordinator::Register(const v1::RegisterRequest& request) {
  RETURN_IF_ERROR(Do(
      [&request](ControlPlane* control, Moment now) { return control->Register(request, now); }));
  v1::RegisterResponse response;
  response.set_lease_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(options_.lease)));
  response.set_address(request.address());
  return response;
}

absl::StatusOr<v1::HeartbeatResponse> Coordinator::Heartbeat(const v1::HeartbeatRequest& request) {
  RETURN_IF_ERROR(Do([&request](ControlPlane* control, Moment now) {
    RETURN_IF_ERROR(control->Renew(request.daemon(), now));
    return request.draining() ? control->Drain(request.daemon(), now) : absl::OkStatus();
  }));
  const auto longest_ms = static_cast<uint64_t>(absl::ToInt64Milliseconds(options_.lease / 3));
  const absl::Duration deadline =
      clock_.Steady() + absl::Milliseconds(std::min(request.max_wait_ms(), longest_ms));
  AssignmentBoard::Entry entry;
  bool drained = false;
  uint64_t ticket = 0;
  {
    MutexLock lock(&mutex_);
    for (;;) {
      if (stopping_) return Stopping();
      drained = request.draining() && control_.IsDrained(request.daemon());
      ASSIGN_OR_RETURN(entry, control_.AssignmentsOf(request.daemon()));
      const absl::Duration left = deadline - clock_.Steady();
      if (drained || entry.revision != request.known_revision() || left <= absl::ZeroDuration()) {
        break;
      }
      assignments_changed_.WaitFor(&mutex_, std::min(left, options_.longest_sleep));
    }
    ticket = NewestTicket();
  }
  // Assignments never change, so they are copied without the lock.
  v1::HeartbeatResponse response;
  response.set_revision(entry.revision);
  response.set_unchanged(entry.revision == request.known_revision());
  response.set_drained(drained);
  if (response.unchanged() && !drained) return response;
  // What a daemon acts on must be known to the next coordinator too.
  RETURN_IF_ERROR(AwaitWritten(ticket));
  if (response.unchanged()) return response;
  for (const auto& [job, assignment] : entry.assignments) *response.add_assignment() = *assignment;
  return response;
}

absl::Status Coordinator::Report(const v1::ReportRequest& request) {
  return Do(
      [&request](ControlPlane* control, Moment now) { return control->Report(request, now); });
}

void Coordinator::Leave(const v1::LeaveRequest& request) {
  Do([&request](ControlPlane* control, Moment now) {
    control->Leave(request, now);
    return 0;
  });
}

absl::Status Coordinator::CheckRoom(const std::string& owner) const {
  const absl::Status room = control_.jobs().CheckRoom(owner);
  if (!room.ok()) CountRefusal(options_.counts, Refusal::kQueuedJobs);
  return room;
}

absl::StatusOr<v1::Job> Coordinator::Submit(const v1::SubmitJobRequest& request,
                                            const std::string& owner, const JobScope& scope) {
  if (!request.validate_only()) {
    // Before anything else is done about it: a flood must not cost a look at every specification.
    MutexLock lock(&mutex_);
    if (!control_.jobs().KnowsRequest(owner, request.request_id())) {
      RETURN_IF_ERROR(CheckRoom(owner));
    }
  }
  ASSIGN_OR_RETURN(JobTable::Submission submission, Validate(request.spec(), request.request_id()));
  submission.owner = owner;
  // The answer to a repetition does not depend on what has become of cluster and checkpoints
  // meanwhile.
  std::optional<v1::Job> known;
  uint64_t ticket = 0;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(const std::optional<uint64_t> id, control_.jobs().FindRequest(submission));
    if (id.has_value()) known = *control_.jobs().Get(*id);
    if (!id.has_value()) RETURN_IF_ERROR(CheckRoom(owner));
    ticket = NewestTicket();
  }
  if (known.has_value() && !request.validate_only()) {
    RETURN_IF_ERROR(AwaitWritten(ticket));
    return *std::move(known);
  }
  RETURN_IF_ERROR(PrepareCheckpoints(&submission, scope));
  RETURN_IF_ERROR(CheckAdmission(submission, request.await_daemons()));
  if (request.validate_only()) {
    v1::Job job;
    *job.mutable_spec() = std::move(submission.spec);
    *job.mutable_layout() = std::move(submission.layout);
    return job;
  }
  ASSIGN_OR_RETURN(v1::Job job, Do([&submission](ControlPlane* control, Moment now) {
                     return control->Submit(std::move(submission), now);
                   }));
  StartReady();
  MutexLock lock(&mutex_);
  // It may have started, or ended and been forgotten.
  if (const v1::Job* known = control_.jobs().Get(job.id()); known != nullptr) job = *known;
  return job;
}

absl::StatusOr<v1::PlanReport> Coordinator::Plan(const v1::PlanJobRequest& request) const {
  ASSIGN_OR_RETURN(const JobTable::Submission submission, Validate(request.spec(), ""));
  return PlanJob(submission.spec, submission.layout, ViewFor(submission));
}

absl::Status Coordinator::CheckAdmission(const JobTable::Submission& submission,
                                         bool await_daemons) const {
  absl::Status daemons;
  {
    MutexLock lock(&mutex_);
    daemons = control_.CheckAdmission(submission, await_daemons);
  }
  const absl::Status fits = CheckFits(submission.spec, submission.layout, ViewFor(submission));
  if (absl::IsInvalidArgument(fits)) return fits;
  if (daemons.ok()) return WithReason(fits, "DOES_NOT_FIT");
  if (fits.ok()) return WithReason(daemons, "NOT_ENOUGH_DAEMONS");
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(daemons.message(), "\n", fits.message())),
      "NOT_ENOUGH_DAEMONS");
}

ClusterView Coordinator::ViewFor(const JobTable::Submission& submission) const {
  MutexLock lock(&mutex_);
  return control_.ViewFor(submission);
}

absl::StatusOr<v1::JobTrace> Coordinator::Trace(absl::string_view id_or_name,
                                                const JobScope& scope) const {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const uint64_t id, control_.jobs().Find(id_or_name, scope));
  return control_.traces().Get(id);
}

absl::StatusOr<v1::Job> Coordinator::Get(absl::string_view id_or_name,
                                         const JobScope& scope) const {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const uint64_t id, control_.jobs().Find(id_or_name, scope));
  return *control_.jobs().Get(id);
}

v1::ListJobsResponse Coordinator::List(const v1::ListJobsRequest& request,
                                       const JobScope& scope) const {
  MutexLock lock(&mutex_);
  return control_.jobs().List(request, scope);
}

absl::StatusOr<v1::Job> Coordinator::Cancel(const v1::CancelJobRequest& request,
                                            const JobScope& scope) {
  return Do([&](ControlPlane* control, Moment now) -> absl::StatusOr<v1::Job> {
    ASSIGN_OR_RETURN(const uint64_t id, control->jobs().Find(request.job(), scope));
    v1::CancelJobRequest by_id = request;
    by_id.set_job(absl::StrCat(id));
    return control->Cancel(by_id, now);
  });
}

absl::Status Coordinator::Delete(const v1::DeleteJobRequest& request, const JobScope& scope) {
  const absl::StatusOr<v1::Job> job = Get(request.job(), scope);
  if (!job.ok()) return DeleteForgotten(request.job(), scope, job.status());
  v1::DeleteJobRequest by_id;
  by_id.set_job(absl::StrCat(job->id()));
  RETURN_IF_ERROR(
      Do([&by_id](ControlPlane* control, Moment now) { return control->Delete(by_id, now); }));
  return checkpoints_ == nullptr ? absl::OkStatus() : checkpoints_->RemoveJob(job->id());
}

absl::Status Coordinator::DeleteForgotten(const std::string& id_or_name, const JobScope& scope,
                                          const absl::Status& unknown) const {
  if (checkpoints_ == nullptr) return unknown;
  const absl::StatusOr<std::vector<v1::Checkpoint>> all = checkpoints_->List(id_or_name, scope);
  if (!all.ok() || all->empty()) return unknown;
  const uint64_t id = all->front().job();
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(control_.CheckNotNeeded(id));
  }
  return checkpoints_->RemoveJob(id);
}

std::vector<std::string> Coordinator::AwaitedWorkers(uint64_t job) const {
  MutexLock lock(&mutex_);
  return control_.AwaitedWorkers(job);
}

v1::Cluster Coordinator::DescribeCluster() const {
  MutexLock lock(&mutex_);
  return control_.DescribeCluster(Now());
}

absl::StatusOr<v1::DrainDaemonResponse> Coordinator::DrainDaemon(
    const v1::DrainDaemonRequest& request) {
  return Do(
      [&request](ControlPlane* control, Moment now) { return control->DrainDaemon(request, now); });
}

absl::StatusOr<Coordinator::Events> Coordinator::WaitForEvents(uint64_t job, uint64_t after,
                                                               size_t max_events,
                                                               absl::Duration max_wait) const {
  const absl::Duration deadline = clock_.Steady() + max_wait;
  Events result;
  uint64_t ticket = 0;
  {
    MutexLock lock(&mutex_);
    for (;;) {
      if (stopping_) return Stopping();
      ASSIGN_OR_RETURN(JobTable::Events found, control_.jobs().EventsAfter(job, after, max_events));
      result = {std::move(found.events), found.complete};
      const absl::Duration left = deadline - clock_.Steady();
      if (!result.events.empty() || result.complete || left <= absl::ZeroDuration()) break;
      events_changed_.WaitFor(&mutex_, std::min(left, options_.longest_sleep));
    }
    ticket = NewestTicket();
  }
  // The next coordinator must know the events by the same numbers.
  RETURN_IF_ERROR(AwaitWritten(ticket));
  return result;
}

absl::StatusOr<Coordinator::Logs> Coordinator::WaitForLogs(uint64_t job, uint64_t after,
                                                           absl::string_view daemon,
                                                           size_t max_lines,
                                                           absl::Duration max_wait) const {
  const absl::Duration deadline = clock_.Steady() + max_wait;
  MutexLock lock(&mutex_);
  for (;;) {
    if (stopping_) return Stopping();
    const v1::Job* known = control_.jobs().Get(job);
    if (known == nullptr) return absl::NotFoundError(absl::StrCat("job ", job, " is forgotten"));
    LogStore::Lines found = control_.logs().After(job, after, daemon, max_lines);
    const absl::Duration left = deadline - clock_.Steady();
    if (!found.lines.empty() || left <= absl::ZeroDuration()) {
      return Logs{std::move(found.lines), found.revision, HasEnded(known->state())};
    }
    events_changed_.WaitFor(&mutex_, std::min(left, options_.longest_sleep));
  }
}

void Coordinator::Tick() {
  Advance();
  StartReady();
}

void Coordinator::Advance() {
  Do([](ControlPlane* control, Moment now) {
    control->Advance(now);
    return 0;
  });
}

void Coordinator::Shutdown() {
  MutexLock lock(&mutex_);
  stopping_ = true;
  assignments_changed_.SignalAll();
  events_changed_.SignalAll();
}

}  // namespace sangam
