#ifndef SANGAM_WORKER_RUNTIME_JOB_RUNNER_H_
#define SANGAM_WORKER_RUNTIME_JOB_RUNNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/data/data_root.h"
#include "proto/plan.pb.h"
#include "worker/runtime/batch_feed.h"
#include "worker/runtime/job_task.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/pipeline_link.h"
#include "worker/runtime/report_sink.h"
#include "worker/runtime/trainer.h"

namespace sangam {

// What a worker daemon is.
struct WorkerOptions {
  // As plans call it.
  std::string name;
  uint64_t incarnation = 0;
  // Folder that all data of jobs must lie in; empty: only jobs whose data is served.
  std::string data_root;
  std::string backend = "cpu";
  // Which of the machine's devices, for a backend that has some.
  int device = 0;
  // Compute threads of a job.
  uint32_t threads = 1;
  // As in PrepareOptions.
  bool graphs = true;
  // Memory that a job may use, in bytes; 0: as much as there is.
  uint64_t memory_limit = 0;
  ParameterLinkFactory make_link;
  PipelineLinkFactory make_pipeline_link;
  BatchFeedFactory make_feed;
  Trainer::Options trainer;
};

// Makes this worker hold exactly the jobs that it is assigned, one task for each. Level-triggered:
// only the latest assignments count, however many changes were missed before. A task that is no
// longer assigned, or of another generation, is stopped, and its memory is free before the next one
// begins. Thread-safe.
class JobRunner {
 public:
  // Assignments that come before Start are kept.
  // Errors: NotFound, InvalidArgument  no such folder or backend; names what was found
  //         FailedPrecondition         the machine has no such device; says why
  static absl::StatusOr<std::unique_ptr<JobRunner>> Create(const WorkerOptions& options);
  // As Stop.
  ~JobRunner();

  // Begins to act. `sink` must outlive the runner. Call once.
  void Start(ReportSink* sink);

  // Everything that this worker must hold from now on. Returns at once: the work is done elsewhere.
  void Reconcile(const std::vector<v1::Assignment>& assignments);

  // Stops every task and waits until all threads have ended; later assignments are ignored.
  void Stop();

 private:
  // By job.
  using Assignments = std::map<uint64_t, v1::Assignment>;

  JobRunner(const WorkerOptions& options, std::optional<DataRoot> data_root);
  void Work(ReportSink* sink);
  // Those that are here already need not wait until others are gone.
  void RunTasks(const Assignments& wanted);
  // Stops the tasks that are not wanted any more, and waits for them.
  void LetGo(const Assignments& wanted);
  // Begins those that are new.
  void TakeUp(const Assignments& wanted, ReportSink* sink);

  const std::optional<DataRoot> data_root_;
  const TaskOptions options_;
  // Used by the thread alone.
  std::map<uint64_t, std::unique_ptr<JobTask>> tasks_;

  Mutex mutex_;
  CondVar changed_;
  Assignments wanted_ ABSL_GUARDED_BY(mutex_);
  bool dirty_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_JOB_RUNNER_H_
