#include "server/core/job_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/job_scope.h"
#include "common/base/status_macros.h"
#include "common/errors/error_details.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"
#include "proto/saved_state.pb.h"
#include "server/core/job_state.h"
#include "server/core/saved_records.h"
#include "server/core/timestamp.h"

namespace sangam {
namespace {

constexpr uint32_t kDefaultPage = 100;
constexpr uint32_t kLargestPage = 1000;

// JobSpec has no maps, so equal specifications have equal bytes.
std::string AsAsked(v1::JobSpec spec, const std::string& resume_from) {
  if (!resume_from.empty()) spec.set_resume_from(resume_from);
  return spec.SerializeAsString();
}

absl::Status NoSuchJob(absl::string_view job) {
  return WithReason(
      absl::NotFoundError(absl::StrCat(
          "job ", job, ": there is none with this number or name; list the jobs to see")),
      "NO_SUCH_JOB");
}

}  // namespace

absl::StatusOr<std::optional<uint64_t>> JobTable::FindRequest(const Submission& submission) const {
  const auto request = request_ids_.find({submission.owner, submission.request_id});
  if (submission.request_id.empty() || request == request_ids_.end()) return std::nullopt;
  const auto known = jobs_.find(request->second);
  SANGAM_CHECK(known != jobs_.end());
  if (AsAsked(known->second.job.spec(), known->second.asked_resume_from) ==
      AsAsked(submission.spec, submission.asked_resume_from)) {
    return known->first;
  }
  return WithReason(absl::AlreadyExistsError(absl::StrCat(
                        "request_id \"", submission.request_id, "\": job ", known->first,
                        " was submitted with it and has another specification; use a fresh one")),
                    "REQUEST_ID_REUSED", {{"job", absl::StrCat(known->first)}});
}

absl::Status JobTable::CheckRoom(absl::string_view owner) const {
  const std::vector<uint64_t> queued = Queued();
  if (queued.size() >= options_.max_queued) {
    return WithReason(absl::ResourceExhaustedError(
                          absl::StrCat("quota: ", queued.size(), " jobs are queued, the limit is ",
                                       options_.max_queued, "; submit later")),
                      "QUEUE_FULL", {{"limit", absl::StrCat(options_.max_queued)}});
  }
  if (owner.empty()) return absl::OkStatus();
  const size_t own = static_cast<size_t>(std::count_if(
      queued.begin(), queued.end(), [&](uint64_t id) { return Get(id)->owner() == owner; }));
  if (own < options_.max_queued_of_one) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        "quota of \"", owner, "\": ", own, " jobs are queued, the limit is ",
                        options_.max_queued_of_one, "; submit later")),
                    "JOB_QUOTA", {{"limit", absl::StrCat(options_.max_queued_of_one)}});
}

bool JobTable::KnowsRequest(const std::string& owner, const std::string& request_id) const {
  return !request_id.empty() && request_ids_.count({owner, request_id}) > 0;
}

std::map<uint64_t, uint64_t> JobTable::ResumersOf(uint64_t id) const {
  std::map<uint64_t, uint64_t> resumers;
  const std::string prefix = absl::StrCat(id, "/");
  for (const auto& [other, record] : jobs_) {
    // A job that trains has read it, and comes back to it when it starts again before it has a
    // checkpoint of its own.
    const v1::JobState state = record.job.state();
    const bool trains = state == v1::RUNNING && record.job.checkpoint().empty();
    if (state != v1::QUEUED && state != v1::STARTING && !trains) continue;
    absl::string_view from = record.job.spec().resume_from();
    uint64_t step = 0;
    if (absl::ConsumePrefix(&from, prefix) && absl::SimpleAtoi(from, &step)) {
      resumers[step] = other;
    }
  }
  return resumers;
}

absl::StatusOr<uint64_t> JobTable::Submit(Submission submission, absl::Time now) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> known, FindRequest(submission));
  if (known.has_value()) return *known;
  RETURN_IF_ERROR(CheckRoom(submission.owner));
  const uint64_t id = ++last_id_;
  const std::string request_id = std::move(submission.request_id);
  Record record{{}, EventLog(options_.max_events), request_id, submission.asked_resume_from};
  record.job.set_id(id);
  *record.job.mutable_spec() = std::move(submission.spec);
  *record.job.mutable_layout() = std::move(submission.layout);
  record.job.set_owner(submission.owner);
  if (!request_id.empty()) request_ids_[{submission.owner, request_id}] = id;
  Record& kept = jobs_.emplace(id, std::move(record)).first->second;
  if (options_.keep_records) {
    v1::SavedJob saved;
    *saved.mutable_spec() = kept.job.spec();
    *saved.mutable_layout() = kept.job.layout();
    saved.set_request_id(request_id);
    saved.set_asked_resume_from(kept.asked_resume_from);
    saved.set_owner(kept.job.owner());
    changes_[{RecordKind::kJob, id, 0, ""}] = saved.SerializeAsString();
  }
  changed_.insert(id);
  RecordChange(&kept, v1::QUEUED, "submitted", now);
  return id;
}

absl::Status JobTable::ChangeState(uint64_t id, v1::JobState state, absl::string_view reason,
                                   absl::Time now) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return NoSuchJob(absl::StrCat(id));
  const v1::JobState from = found->second.job.state();
  if (!IsLegalChange(from, state)) {
    return absl::FailedPreconditionError(absl::StrCat("job ", id, ": cannot go from ",
                                                      v1::JobState_Name(from), " to ",
                                                      v1::JobState_Name(state)));
  }
  RecordChange(&At(id), state, reason, now);
  if (HasEnded(state)) {
    ended_.push_back(id);
    ForgetOldJobs();
  }
  return absl::OkStatus();
}

void JobTable::SetPlan(uint64_t id, const v1::Plan& plan, const v1::StrategyForecast& chosen,
                       absl::string_view reason) {
  v1::Job& job = At(id).job;
  job.clear_worker();
  job.clear_server();
  job.clear_server_address();
  for (const v1::WorkerPlan& worker : plan.worker()) job.add_worker(worker.name());
  for (const v1::ServerPlan& server : plan.server()) {
    job.add_server(server.name());
    job.add_server_address(server.address());
  }
  job.set_generation(plan.generation());
  job.set_strategy(chosen.strategy());
  job.set_schedule(plan.schedule());
  job.clear_stage();
  for (const v1::StageForecast& stage : chosen.stage()) {
    v1::StageSummary* summary = job.add_stage();
    summary->set_first_block(stage.first_block_name());
    summary->set_last_block(stage.last_block_name());
    summary->set_block_count(stage.block_count());
    summary->set_parameter_count(stage.parameter_count());
    *summary->mutable_worker() = stage.worker();
  }
  job.set_plan_reason(std::string(reason));
}

void JobTable::ClearPlan(uint64_t id) {
  v1::Job& job = At(id).job;
  job.clear_worker();
  job.clear_server();
  job.clear_server_address();
}

void JobTable::GoBack(uint64_t id, uint64_t step, uint64_t updates) {
  v1::Job& job = At(id).job;
  progressed_.insert(id);
  job.mutable_progress()->set_steps_done(step);
  job.set_skipped_steps(step - std::min(step, updates));
  // The one at `step` is done again too.
  auto* evaluations = job.mutable_evaluation();
  while (!evaluations->empty() && evaluations->rbegin()->step() >= step) evaluations->RemoveLast();
  v1::SavedLosses& losses = Known(id).losses;
  if (step <= losses.first_step()) return;
  losses.clear_reason();
  losses.set_first_step(step);
  RecordLosses(id, losses);
}

void JobTable::AddLoss(uint64_t id, absl::string_view reason) {
  v1::SavedLosses& losses = Known(id).losses;
  losses.add_reason(std::string(reason));
  RecordLosses(id, losses);
}

std::vector<std::string> JobTable::LossesOf(uint64_t id) const {
  const auto found = jobs_.find(id);
  SANGAM_CHECK(found != jobs_.end());
  const auto& reasons = found->second.losses.reason();
  return {reasons.begin(), reasons.end()};
}

void JobTable::SetUtilization(uint64_t id, const v1::Utilization& utilization) {
  *At(id).job.mutable_utilization() = utilization;
}

void JobTable::SetLength(uint64_t id, uint64_t steps_total, uint64_t steps_per_epoch) {
  v1::Progress* progress = Known(id).job.mutable_progress();
  progressed_.insert(id);
  progress->set_steps_total(steps_total);
  progress->set_steps_per_epoch(steps_per_epoch);
}

void JobTable::AddStep(uint64_t id, const v1::StepMetrics& step, absl::Time now) {
  Record& record = Known(id);
  progressed_.insert(id);
  v1::Progress* progress = record.job.mutable_progress();
  progress->set_steps_done(step.step() + 1);
  progress->set_loss(step.loss());
  progress->set_samples(progress->samples() + step.samples());
  progress->set_samples_per_second(step.samples_per_second());
  AddEvent(&record, now, [&step](v1::JobEvent* event) { *event->mutable_step() = step; });
}

void JobTable::AddEvaluation(uint64_t id, const v1::Evaluation& evaluation, absl::Time now) {
  Record& record = At(id);
  if (record.job.evaluation_size() >= options_.max_evaluations) {
    record.job.mutable_evaluation()->DeleteSubrange(0, 1);
  }
  *record.job.add_evaluation() = evaluation;
  AddEvent(&record, now,
           [&evaluation](v1::JobEvent* event) { *event->mutable_evaluation() = evaluation; });
}

void JobTable::AddMessage(uint64_t id, absl::string_view message, absl::Time now) {
  AddEvent(&Known(id), now,
           [message](v1::JobEvent* event) { event->set_message(std::string(message)); });
}

void JobTable::AddSkippedSteps(uint64_t id, uint64_t count) {
  v1::Job& job = At(id).job;
  job.set_skipped_steps(job.skipped_steps() + count);
}

void JobTable::SetWaitReason(uint64_t id, absl::string_view reason, absl::Time now) {
  if (Known(id).job.reason() == reason) return;
  Record& record = At(id);
  record.job.set_reason(std::string(reason));
  AddMessage(id, reason, now);
}

void JobTable::SetWeightsAvailable(uint64_t id, bool available) {
  At(id).job.set_weights_available(available);
}

void JobTable::SetCheckpoints(uint64_t id, const std::vector<v1::CheckpointSummary>& all,
                              uint64_t news, absl::Time now) {
  Record& record = At(id);
  *record.job.mutable_checkpoint() = {all.begin(), all.end()};
  if (HasEnded(record.job.state())) return;
  for (const v1::CheckpointSummary& summary : all) {
    if (summary.step() != news) continue;
    AddEvent(&record, now,
             [&summary](v1::JobEvent* event) { *event->mutable_checkpoint() = summary; });
  }
}

void JobTable::SetServerMemory(uint64_t id, uint64_t bytes) {
  At(id).job.set_server_memory_bytes(bytes);
}

absl::Status JobTable::Delete(uint64_t id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return NoSuchJob(absl::StrCat(id));
  const v1::Job& job = found->second.job;
  if (!HasEnded(job.state())) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            "job ", id, " (", job.spec().name(), ") is ", v1::JobState_Name(job.state()),
            ", expected one that has ended; cancel it first")),
        "JOB_NOT_ENDED", {{"state", v1::JobState_Name(job.state())}});
  }
  Forget(id);
  ended_.erase(std::remove(ended_.begin(), ended_.end(), id), ended_.end());
  return absl::OkStatus();
}

const v1::Job* JobTable::Get(uint64_t id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second.job;
}

absl::StatusOr<uint64_t> JobTable::Find(absl::string_view id_or_name, const JobScope& scope) const {
  if (uint64_t id = 0; absl::SimpleAtoi(id_or_name, &id)) {
    const auto found = jobs_.find(id);
    if (found != jobs_.end() && scope.Includes(found->second.job.owner())) return id;
  }
  for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it) {
    const v1::Job& job = it->second.job;
    if (job.spec().name() == id_or_name && scope.Includes(job.owner())) return it->first;
  }
  return NoSuchJob(absl::StrCat("\"", id_or_name, "\""));
}

v1::ListJobsResponse JobTable::List(const v1::ListJobsRequest& request,
                                    const JobScope& scope) const {
  const uint32_t page =
      std::min(request.page_size() == 0 ? kDefaultPage : request.page_size(), kLargestPage);
  v1::ListJobsResponse response;
  auto it = request.before_id() == 0 ? jobs_.end() : jobs_.lower_bound(request.before_id());
  while (it != jobs_.begin()) {
    --it;
    const v1::Job& job = it->second.job;
    if (!scope.Includes(job.owner())) continue;
    const auto& states = request.state();
    if (!states.empty() && std::find(states.begin(), states.end(), job.state()) == states.end()) {
      continue;
    }
    if (response.job_size() == static_cast<int>(page)) {
      response.set_more(true);
      break;
    }
    v1::Job* listed = response.add_job();
    listed->set_id(job.id());
    listed->mutable_spec()->set_name(job.spec().name());
    listed->mutable_spec()->set_priority(job.spec().priority());
    listed->set_owner(job.owner());
    listed->set_state(job.state());
    listed->set_reason(job.reason());
    *listed->mutable_history() = job.history();
    *listed->mutable_progress() = job.progress();
    if (job.evaluation_size() != 0) *listed->add_evaluation() = *job.evaluation().rbegin();
    *listed->mutable_worker() = job.worker();
    *listed->mutable_server() = job.server();
    *listed->mutable_server_address() = job.server_address();
    listed->set_generation(job.generation());
    listed->set_strategy(job.strategy());
    listed->set_schedule(job.schedule());
    if (job.has_utilization()) *listed->mutable_utilization() = job.utilization();
    listed->set_weights_available(job.weights_available());
    listed->set_server_memory_bytes(job.server_memory_bytes());
  }
  return response;
}

absl::StatusOr<JobTable::Events> JobTable::EventsAfter(uint64_t id, uint64_t after,
                                                       size_t max) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return NoSuchJob(absl::StrCat(id));
  const EventLog& log = found->second.events;
  Events result;
  result.events = log.After(after, max);
  const uint64_t seen = result.events.empty() ? after : result.events.back().revision();
  result.complete = HasEnded(found->second.job.state()) && seen >= log.last_revision();
  return result;
}

std::vector<v1::StepMetrics> JobTable::StepsOf(uint64_t id) const {
  std::vector<v1::StepMetrics> steps;
  const auto found = jobs_.find(id);
  SANGAM_CHECK(found != jobs_.end());
  for (v1::JobEvent& event : found->second.events.After(0, options_.max_events)) {
    if (event.has_state() && event.state().state() == v1::STARTING) steps.clear();
    if (event.has_step()) steps.push_back(std::move(*event.mutable_step()));
  }
  return steps;
}

std::vector<uint64_t> JobTable::Queued() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, record] : jobs_) {
    if (record.job.state() == v1::QUEUED) ids.push_back(id);
  }
  return ids;
}

std::vector<uint64_t> JobTable::Ids() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, record] : jobs_) ids.push_back(id);
  return ids;
}

JobTable::Record& JobTable::At(uint64_t id) {
  changed_.insert(id);
  return Known(id);
}

JobTable::Record& JobTable::Known(uint64_t id) {
  const auto found = jobs_.find(id);
  SANGAM_CHECK(found != jobs_.end());
  return found->second;
}

void JobTable::AddEvent(Record* record, absl::Time now,
                        const std::function<void(v1::JobEvent*)>& fill) {
  v1::JobEvent event;
  *event.mutable_time() = ToTimestamp(now);
  event.set_steps_total(record->job.progress().steps_total());
  event.set_steps_per_epoch(record->job.progress().steps_per_epoch());
  fill(&event);
  const uint64_t first_revision = record->events.first_revision();
  record->events.Append(std::move(event));
  if (!options_.keep_records) return;
  const uint64_t id = record->job.id();
  const v1::JobEvent& kept = record->events.newest();
  changes_[{RecordKind::kEvent, id, kept.revision(), ""}] = kept.SerializeAsString();
  RecordDropped(id, first_revision, record->events);
}

void JobTable::RecordDropped(uint64_t id, uint64_t first_revision, const EventLog& events) {
  if (!options_.keep_records) return;
  for (; first_revision < events.first_revision(); ++first_revision) {
    changes_[{RecordKind::kEvent, id, first_revision, ""}] = std::nullopt;
  }
}

void JobTable::RecordLosses(uint64_t id, const v1::SavedLosses& losses) {
  if (options_.keep_records) {
    changes_[{RecordKind::kLosses, id, 0, ""}] = losses.SerializeAsString();
  }
}

void JobTable::Forget(uint64_t id) {
  const Record& record = Known(id);
  if (options_.keep_records) {
    for (const RecordKind kind :
         {RecordKind::kJob, RecordKind::kStatus, RecordKind::kProgress, RecordKind::kLosses}) {
      changes_[{kind, id, 0, ""}] = std::nullopt;
    }
    for (uint64_t i = record.events.first_revision(); i <= record.events.last_revision(); ++i) {
      changes_[{RecordKind::kEvent, id, i, ""}] = std::nullopt;
    }
  }
  request_ids_.erase({record.job.owner(), record.request_id});
  jobs_.erase(id);
}

void JobTable::TakeRecords(RecordChanges* changes) {
  if (!options_.keep_records) {
    changed_.clear();
    progressed_.clear();
    return;
  }
  for (const uint64_t id : changed_) {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) continue;
    // The large parts that never change, and the one that changes with every step, stay out.
    v1::Job* job = &found->second.job;
    std::unique_ptr<v1::JobSpec> spec(job->release_spec());
    std::unique_ptr<v1::ModelLayout> layout(job->release_layout());
    std::unique_ptr<v1::Progress> progress(job->release_progress());
    changes_[{RecordKind::kStatus, id, 0, ""}] = job->SerializeAsString();
    job->set_allocated_spec(spec.release());
    job->set_allocated_layout(layout.release());
    job->set_allocated_progress(progress.release());
  }
  for (const uint64_t id : progressed_) {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) continue;
    changes_[{RecordKind::kProgress, id, 0, ""}] = found->second.job.progress().SerializeAsString();
  }
  changed_.clear();
  progressed_.clear();
  for (auto& [key, value] : changes_) (*changes)[key] = std::move(value);
  changes_.clear();
}

absl::Status JobTable::RestoreRecord(const RecordKey& key, const std::string& value) {
  const auto damaged = [&key] {
    return absl::DataLossError(absl::StrCat(ToString(key), ": found bytes that make no sense"));
  };
  if (key.kind == RecordKind::kJob) {
    v1::SavedJob saved;
    if (!saved.ParseFromString(value)) return damaged();
    Record record{{}, EventLog(options_.max_events), saved.request_id(), saved.asked_resume_from()};
    record.job.set_id(key.job);
    *record.job.mutable_spec() = std::move(*saved.mutable_spec());
    *record.job.mutable_layout() = std::move(*saved.mutable_layout());
    record.job.set_owner(saved.owner());
    if (!record.request_id.empty()) request_ids_[{saved.owner(), record.request_id}] = key.job;
    jobs_.emplace(key.job, std::move(record));
    last_id_ = std::max(last_id_, key.job);
    return absl::OkStatus();
  }
  const auto found = jobs_.find(key.job);
  if (found == jobs_.end()) {
    return absl::DataLossError(absl::StrCat(ToString(key), ": found no job of this number"));
  }
  Record& record = found->second;
  if (key.kind == RecordKind::kStatus) {
    v1::Job status;
    if (!status.ParseFromString(value) || status.id() != key.job) return damaged();
    status.mutable_spec()->Swap(record.job.mutable_spec());
    status.mutable_layout()->Swap(record.job.mutable_layout());
    record.job.Swap(&status);
  } else if (key.kind == RecordKind::kProgress) {
    if (!record.job.mutable_progress()->ParseFromString(value)) return damaged();
  } else if (key.kind == RecordKind::kEvent) {
    v1::JobEvent event;
    if (!event.ParseFromString(value) || event.revision() != key.number) return damaged();
    record.events.Restore(std::move(event));
  } else if (key.kind == RecordKind::kLosses) {
    if (!record.losses.ParseFromString(value)) return damaged();
  }
  return absl::OkStatus();
}

absl::Status JobTable::Restore(const SavedRecords& records, uint64_t last_id) {
  last_id_ = std::max(options_.last_id, last_id);
  // In the order of the kinds: the jobs come first.
  for (const RecordKind kind : {RecordKind::kJob, RecordKind::kStatus, RecordKind::kProgress,
                                RecordKind::kEvent, RecordKind::kLosses}) {
    for (auto it = records.lower_bound({kind, 0, 0, ""});
         it != records.end() && it->first.kind == kind; ++it) {
      RETURN_IF_ERROR(RestoreRecord(it->first, it->second));
    }
  }
  std::vector<std::pair<absl::Time, uint64_t>> ended;
  for (const auto& [id, record] : jobs_) {
    if (record.job.history_size() == 0) {
      return absl::DataLossError(absl::StrCat("job ", id, ": found no record of its state"));
    }
    if (!HasEnded(record.job.state())) continue;
    ended.emplace_back(FromTimestamp(record.job.history().rbegin()->time()), id);
  }
  std::sort(ended.begin(), ended.end());
  for (const auto& [time, id] : ended) ended_.push_back(id);
  // Limits may be lower than they were.
  ForgetOldJobs();
  return absl::OkStatus();
}

void JobTable::RecordChange(Record* record, v1::JobState state, absl::string_view reason,
                            absl::Time now) {
  v1::StateChange change;
  change.set_state(state);
  *change.mutable_time() = ToTimestamp(now);
  change.set_reason(std::string(reason));
  record->job.set_state(state);
  record->job.set_reason(std::string(reason));
  *record->job.add_history() = change;
  AddEvent(record, now, [&change](v1::JobEvent* event) { *event->mutable_state() = change; });
}

void JobTable::ForgetOldJobs() {
  size_t ended = 0;
  std::deque<uint64_t> remembered;
  for (auto id = ended_.rbegin(); id != ended_.rend(); ++id) {
    Record& record = Known(*id);
    const bool holds_weights = record.job.weights_available();
    if (!holds_weights) ++ended;
    if (!holds_weights && ended > options_.max_ended) {
      Forget(*id);
      continue;
    }
    if (!holds_weights && ended > options_.ended_with_all_events) {
      const uint64_t first_revision = record.events.first_revision();
      record.events.SetCapacity(options_.max_events_of_old);
      RecordDropped(*id, first_revision, record.events);
    }
    remembered.push_front(*id);
  }
  ended_ = std::move(remembered);
}

}  // namespace sangam
