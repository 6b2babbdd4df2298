#ifndef SANGAM_WORKER_RUNTIME_RUN_LATCH_H_
#define SANGAM_WORKER_RUNTIME_RUN_LATCH_H_

#include <atomic>

#include "absl/status/status.h"
#include "common/base/mutex.h"

namespace sangam {

// Why the threads of one run must end: the first of them that fails, or whoever stops the run, says
// so here, once. Thread-safe.
class RunLatch {
 public:
  // Ends the run with `reason` (not OK) unless it has ended already; true: this reason counts.
  bool Trip(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (!reason_.ok()) return false;
    reason_ = reason;
    tripped_.store(true, std::memory_order_release);
    return true;
  }

  // Cheap enough to be asked before every instruction.
  bool tripped() const { return tripped_.load(std::memory_order_acquire); }
  // For readers that only want to be cancelled.
  const std::atomic<bool>* flag() const { return &tripped_; }

  // OK as long as nothing has ended the run.
  absl::Status reason() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return reason_;
  }

 private:
  std::atomic<bool> tripped_{false};
  mutable Mutex mutex_;
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_RUN_LATCH_H_
