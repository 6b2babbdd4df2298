#include "worker/runtime/job_task.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "worker/backend/device_lost.h"
#include "worker/runtime/prepared_job.h"
#include "worker/runtime/trainer.h"

namespace sangam {
namespace {

std::optional<uint64_t> StopOf(const v1::Assignment& assignment) {
  if (!assignment.has_stop_step()) return std::nullopt;
  return assignment.stop_step();
}

absl::StatusOr<uint32_t> FindWorker(const v1::Plan& plan, const TaskOptions& options) {
  for (int w = 0; w < plan.worker_size(); ++w) {
    if (plan.worker(w).name() == options.name &&
        plan.worker(w).incarnation() == options.incarnation) {
      return static_cast<uint32_t>(w);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("plan.worker: found no worker \"", options.name,
                                                 "\" of incarnation ", options.incarnation));
}

}  // namespace

JobTask::JobTask(const TaskOptions* options, ReportSink* sink, const v1::Assignment& assignment)
    : options_(options),
      sink_(sink),
      job_(assignment.plan().job()),
      generation_(assignment.plan().generation()),
      thread_([this, assignment] { Work(assignment); }) {}

JobTask::~JobTask() {
  Stop();
  thread_.join();
}

void JobTask::Run(const v1::Assignment& assignment) {
  MutexLock lock(&mutex_);
  stop_step_ = StopOf(assignment);
  if (trainer_ != nullptr) trainer_->SetStop(stop_step_);
  if (run_.has_value()) return;
  run_ = assignment;
  changed_.SignalAll();
}

void JobTask::Stop() {
  stopped_.store(true, std::memory_order_release);
  MutexLock lock(&mutex_);
  if (trainer_ != nullptr) trainer_->Stop();
  changed_.SignalAll();
}

void JobTask::Report(v1::JobReport report) { sink_->Report(job_, generation_, std::move(report)); }

void JobTask::Work(const v1::Assignment& assignment) {
  // Outlives the report of a failure: neighbours that find the job gone here may say so to the
  // coordinator, which should know the reason by then.
  std::unique_ptr<PreparedJob> job;
  const absl::Status status = PrepareAndRun(assignment, &job);
  // That the device is lost counts for whatever job comes next.
  if (stopped_.load(std::memory_order_acquire) && !IsDeviceLost(status)) {
    LogInfo("job let go", "job=%d generation=%d", job_, generation_);
    return;
  }
  v1::JobReport report;
  if (status.ok()) {
    LogInfo("job finished", "job=%d generation=%d", job_, generation_);
    report.mutable_finished();
    // The coordinator may have the next job for this memory.
    job = nullptr;
  } else {
    LogError("job failed", "job=%d generation=%d status=%s", job_, generation_,
             LogValue(status.ToString()));
    report.mutable_failed()->set_code(static_cast<int32_t>(status.code()));
    report.mutable_failed()->set_message(std::string(status.message()));
    report.mutable_failed()->set_daemon_at_fault(IsDeviceLost(status));
  }
  Report(std::move(report));
}

absl::Status JobTask::PrepareAndRun(const v1::Assignment& assignment,
                                    std::unique_ptr<PreparedJob>* prepared) {
  ASSIGN_OR_RETURN(const uint32_t worker, FindWorker(assignment.plan(), *options_));
  PrepareOptions prepare;
  prepare.data_root = options_->data_root;
  prepare.backend = options_->backend;
  prepare.device = options_->device;
  prepare.threads = options_->threads;
  prepare.graphs = options_->graphs;
  prepare.memory_limit = options_->memory_limit;
  prepare.make_pipeline_link = options_->make_pipeline_link;
  prepare.cancelled = &stopped_;
  ASSIGN_OR_RETURN(*prepared, PrepareJob(assignment, worker, prepare));
  PreparedJob* const job = prepared->get();
  v1::JobReport ready;
  *ready.mutable_ready() = job->Facts();
  LogInfo("job prepared", "job=%d generation=%d worker=%d rank=%d lanes=%d train_samples=%d", job_,
          generation_, worker, job->plan.worker(static_cast<int>(worker)).rank(), job->lanes.size(),
          ready.ready().train_samples());
  Report(std::move(ready));
  ASSIGN_OR_RETURN(const v1::Assignment run, AwaitRun());
  // A worker without shares has nothing to do, and its end is not waited for.
  if (job->lanes.empty()) return absl::OkStatus();
  return Train(job, run);
}

absl::StatusOr<v1::Assignment> JobTask::AwaitRun() {
  MutexLock lock(&mutex_);
  while (!run_.has_value() && !stopped_.load(std::memory_order_acquire)) {
    changed_.WaitFor(&mutex_, absl::Hours(1));
  }
  if (stopped_.load(std::memory_order_acquire)) return absl::CancelledError("the job was let go");
  return *run_;
}

absl::Status JobTask::Train(PreparedJob* job, const v1::Assignment& run) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                   Trainer::Create(job, run, options_->trainer, sink_, options_->make_feed));
  {
    MutexLock lock(&mutex_);
    if (stopped_.load(std::memory_order_acquire)) return absl::CancelledError("the job was let go");
    trainer_ = trainer.get();
    trainer_->SetStop(stop_step_);
  }
  LogInfo("training begins", "job=%d generation=%d steps_total=%d steps_per_epoch=%d", job_,
          generation_, run.steps_total(), run.steps_per_epoch());
  absl::Status status = trainer->Run(options_->make_link);
  MutexLock lock(&mutex_);
  trainer_ = nullptr;
  return status;
}

}  // namespace sangam
