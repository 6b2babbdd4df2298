#ifndef SANGAM_COMMON_RPC_ACTIVITY_COUNT_H_
#define SANGAM_COMMON_RPC_ACTIVITY_COUNT_H_

#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace sangam {

// Counts what may still post operations on a completion queue: a queue may be shut down only when
// nothing does any more. Thread-safe.
class ActivityCount {
 public:
  void Begin();
  // REQUIRES: a Begin without its End.
  void End();

  // Waits until the count is 0, at most for `deadline`; whether it is.
  bool WaitForNone(absl::Duration deadline);

 private:
  Mutex mutex_;
  CondVar none_;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_ACTIVITY_COUNT_H_
