#ifndef SANGAM_SERVER_RUNTIME_SERVED_DATA_H_
#define SANGAM_SERVER_RUNTIME_SERVED_DATA_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/data/batch_reader.h"
#include "common/data/data_root.h"
#include "common/data/job_data.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"

namespace sangam {

// The data of one generation of a job, open. Immutable.
struct ServedJob {
  std::shared_ptr<const v1::Assignment> assignment;
  // The same for every generation.
  std::shared_ptr<const JobData> data;
  BatchReader reader;

  const v1::Plan& plan() const { return assignment->plan(); }
};

// Opens and holds the data of the jobs whose data the coordinator serves. Has one thread, which
// opens one job after the other. Thread-safe.
class ServedData {
 public:
  struct Options {
    // Where data is read from; none: served jobs cannot be had.
    std::optional<DataRoot> root;
    // Bytes that the data of all jobs together may take; 0: no limit.
    uint64_t memory_limit = 0;
    // Of the samples and labels of one micro-batch: every stream to a worker holds as much.
    uint64_t max_micro_batch_bytes = uint64_t{1} << 30;
  };
  // Called on the thread, without a lock, once for each generation that Reconcile asks for and that
  // is still wanted then: what is in the data, or why it cannot be served.
  using Done = std::function<void(uint64_t job, uint64_t generation,
                                  const absl::StatusOr<v1::ReadyReport>& facts)>;

  ServedData(Options options, Done done);
  // Calls Stop.
  ~ServedData();
  ServedData(const ServedData&) = delete;
  ServedData& operator=(const ServedData&) = delete;

  // What is to be served from now on, one assignment for each job; it is opened on the thread.
  // Other jobs' data is let go. Returns at once; may be called in Done.
  void Reconcile(std::vector<std::shared_ptr<const v1::Assignment>> jobs);

  // Errors: Unavailable  it is about to be opened
  //         NotFound     the job's data is not served, or cannot be opened; says why
  absl::StatusOr<std::shared_ptr<const ServedJob>> Find(uint64_t job) const;

  // Ends the thread, also in the middle of a file. Nothing is opened or reported after this. Not to
  // be called in Done.
  void Stop();

 private:
  struct Entry {
    std::shared_ptr<const v1::Assignment> wanted;
    // Of `wanted`, or of an earlier generation until that one is open.
    std::shared_ptr<const ServedJob> open;
    // The generation that was opened last, or could not be.
    uint64_t done_generation = 0;
    absl::Status failure;
  };

  void Work();
  // The next assignment to open; nothing when there is none now.
  std::shared_ptr<const v1::Assignment> NextToOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `existing`: of an earlier generation of the job, or nullptr.
  absl::StatusOr<std::shared_ptr<const ServedJob>> Open(
      std::shared_ptr<const v1::Assignment> assignment,
      const std::shared_ptr<const ServedJob>& existing, uint64_t memory_in_use);
  absl::StatusOr<std::shared_ptr<const JobData>> OpenData(const v1::Assignment& assignment,
                                                          uint64_t memory_in_use);
  uint64_t MemoryInUse() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Done done_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, Entry> jobs_ ABSL_GUARDED_BY(mutex_);
  // The job that the thread is opening; 0: none. (Jobs are counted from 1.)
  uint64_t opening_ ABSL_GUARDED_BY(mutex_) = 0;
  // Breaks that off.
  std::atomic<bool> cancel_{false};
  std::thread thread_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_SERVED_DATA_H_
