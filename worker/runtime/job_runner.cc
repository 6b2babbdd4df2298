#include "worker/runtime/job_runner.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/data/data_root.h"
#include "proto/plan.pb.h"
#include "worker/backend/backends.h"
#include "worker/backend/precision.h"
#include "worker/runtime/job_task.h"

namespace sangam {
namespace {

TaskOptions OfTasks(const WorkerOptions& options, const DataRoot* data_root) {
  TaskOptions task;
  task.name = options.name;
  task.incarnation = options.incarnation;
  task.data_root = data_root;
  task.backend = options.backend;
  task.device = options.device;
  task.threads = options.threads;
  task.graphs = options.graphs;
  task.memory_limit = options.memory_limit;
  task.make_link = options.make_link;
  task.make_pipeline_link = options.make_pipeline_link;
  task.make_feed = options.make_feed;
  task.trainer = options.trainer;
  return task;
}

}  // namespace

JobRunner::JobRunner(const WorkerOptions& options, std::optional<DataRoot> data_root)
    : data_root_(std::move(data_root)),
      options_(OfTasks(options, data_root_.has_value() ? &*data_root_ : nullptr)) {}

absl::StatusOr<std::unique_ptr<JobRunner>> JobRunner::Create(const WorkerOptions& options) {
  std::optional<DataRoot> data_root;
  if (!options.data_root.empty()) {
    ASSIGN_OR_RETURN(data_root, DataRoot::Create(options.data_root));
  }
  // Better now than in the middle of the first job.
  RETURN_IF_ERROR(CreateBackend(options.backend, Precision::kFp32, options.device).status());
  return std::unique_ptr<JobRunner>(new JobRunner(options, std::move(data_root)));
}

JobRunner::~JobRunner() { Stop(); }

void JobRunner::Start(ReportSink* sink) {
  thread_ = std::thread([this, sink] { Work(sink); });
}

void JobRunner::Reconcile(const std::vector<v1::Assignment>& assignments) {
  Assignments wanted;
  for (const v1::Assignment& assignment : assignments) {
    const uint64_t job = assignment.plan().job();
    if (assignment.phase() != v1::Assignment::PREPARE &&
        assignment.phase() != v1::Assignment::RUN) {
      LogWarning("assignment ignored", "job=%d phase=%d", job, assignment.phase());
      continue;
    }
    wanted[job] = assignment;
  }
  MutexLock lock(&mutex_);
  wanted_ = std::move(wanted);
  dirty_ = true;
  changed_.SignalAll();
}

void JobRunner::Stop() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void JobRunner::Work(ReportSink* sink) {
  for (;;) {
    Assignments wanted;
    {
      MutexLock lock(&mutex_);
      while (!dirty_ && !stopped_) changed_.WaitFor(&mutex_, absl::Hours(1));
      if (stopped_) break;
      dirty_ = false;
      wanted = wanted_;
    }
    RunTasks(wanted);
    LetGo(wanted);
    TakeUp(wanted, sink);
    RunTasks(wanted);
  }
  LetGo({});
}

void JobRunner::RunTasks(const Assignments& wanted) {
  for (const auto& [job, task] : tasks_) {
    const auto found = wanted.find(job);
    if (found == wanted.end() || found->second.phase() != v1::Assignment::RUN) continue;
    if (found->second.plan().generation() == task->generation()) task->Run(found->second);
  }
}

void JobRunner::LetGo(const Assignments& wanted) {
  std::vector<std::unique_ptr<JobTask>> leaving;
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    const auto found = wanted.find(it->first);
    if (found != wanted.end() && found->second.plan().generation() == it->second->generation()) {
      ++it;
      continue;
    }
    it->second->Stop();
    leaving.push_back(std::move(it->second));
    it = tasks_.erase(it);
  }
  // All have been told before the first is waited for.
  leaving.clear();
}

void JobRunner::TakeUp(const Assignments& wanted, ReportSink* sink) {
  for (const auto& [job, assignment] : wanted) {
    std::unique_ptr<JobTask>& task = tasks_[job];
    if (task == nullptr) task = std::make_unique<JobTask>(&options_, sink, assignment);
  }
}

}  // namespace sangam
