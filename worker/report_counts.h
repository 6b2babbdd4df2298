#ifndef SANGAM_WORKER_REPORT_COUNTS_H_
#define SANGAM_WORKER_REPORT_COUNTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "proto/cluster_service.pb.h"
#include "worker/runtime/report_sink.h"

namespace sangam {

// Hands reports on, and remembers what the jobs said last. Thread-safe.
class ReportCounts : public ReportSink {
 public:
  struct Job {
    uint64_t job = 0;
    uint64_t generation = 0;
    uint64_t steps = 0;  // the first one that was not reported
  };

  // `next` must outlive the object.
  explicit ReportCounts(ReportSink* next) : next_(*next) {}

  void Report(uint64_t job, uint64_t generation, v1::JobReport report) override;

  // That have not said that they are over, ascending.
  std::vector<Job> Jobs() const;
  // Steps that were reported, of all jobs.
  uint64_t steps() const;
  // Jobs that ended: with FINISHED, with FAILED.
  uint64_t finished() const;
  uint64_t failed() const;

 private:
  // More than a worker ever has; older ones that never said their end are forgotten.
  static constexpr size_t kMaxJobs = 64;

  ReportSink& next_;
  mutable Mutex mutex_;
  std::map<uint64_t, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  uint64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failed_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_REPORT_COUNTS_H_
