#ifndef SANGAM_WORKER_RUNTIME_JOB_TASK_H_
#define SANGAM_WORKER_RUNTIME_JOB_TASK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/data/data_root.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "worker/runtime/batch_feed.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/pipeline_link.h"
#include "worker/runtime/prepared_job.h"
#include "worker/runtime/report_sink.h"
#include "worker/runtime/trainer.h"

namespace sangam {

// What every task of a worker daemon works with.
struct TaskOptions {
  // The daemon, as plans call it.
  std::string name;
  uint64_t incarnation = 0;
  const DataRoot* data_root = nullptr;  // borrowed; nullptr: see PrepareOptions
  std::string backend = "cpu";
  int device = 0;
  // Compute threads of a job.
  uint32_t threads = 1;
  bool graphs = true;  // as in PrepareOptions
  // Memory that a job may use, in bytes; 0: as much as there is.
  uint64_t memory_limit = 0;
  ParameterLinkFactory make_link;
  PipelineLinkFactory make_pipeline_link;
  BatchFeedFactory make_feed;
  Trainer::Options trainer;
};

// One generation of one job on this worker, on a thread of its own: prepares, reports READY, waits
// to be told to run, trains, reports FINISHED; or reports FAILED, once, and does nothing more; with
// the daemon at fault when its backend has lost the device. Lets go of all memory before it says
// FINISHED, and soon after FAILED. Thread-safe.
class JobTask {
 public:
  // Begins to prepare. `options` and `sink` must outlive the task.
  JobTask(const TaskOptions* options, ReportSink* sink, const v1::Assignment& assignment);
  // Stops and waits for the thread.
  ~JobTask();

  // The coordinator says that everyone is ready; training begins when this worker is. Calls after
  // the first change nothing but where it is to stand still (stop_step).
  void Run(const v1::Assignment& assignment);

  // Ends the task soon, without a report. Returns at once.
  void Stop();

  uint64_t generation() const { return generation_; }

 private:
  void Work(const v1::Assignment& assignment);
  // What was prepared is in `job` afterwards, so that the caller says when it goes.
  absl::Status PrepareAndRun(const v1::Assignment& assignment, std::unique_ptr<PreparedJob>* job);
  // Cancelled when stopped.
  absl::StatusOr<v1::Assignment> AwaitRun();
  absl::Status Train(PreparedJob* job, const v1::Assignment& run);
  void Report(v1::JobReport report);

  const TaskOptions* const options_;
  ReportSink* const sink_;
  const uint64_t job_;
  const uint64_t generation_;
  std::atomic<bool> stopped_{false};

  Mutex mutex_;
  CondVar changed_;
  std::optional<v1::Assignment> run_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> stop_step_ ABSL_GUARDED_BY(mutex_);
  // While it runs; on the thread's stack.
  Trainer* trainer_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;  // last: it uses the above
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_JOB_TASK_H_
