#include "common/rpc/activity_count.h"

#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace sangam {

void ActivityCount::Begin() {
  MutexLock lock(&mutex_);
  ++count_;
}

void ActivityCount::End() {
  MutexLock lock(&mutex_);
  SANGAM_CHECK(count_ > 0);
  // Under the lock, because the one who waits may destroy the count at once.
  if (--count_ == 0) none_.SignalAll();
}

bool ActivityCount::WaitForNone(absl::Duration deadline) {
  const absl::Duration until = Clock::Real().Steady() + deadline;
  MutexLock lock(&mutex_);
  while (count_ > 0) {
    const absl::Duration left = until - Clock::Real().Steady();
    if (left <= absl::ZeroDuration()) return false;
    none_.WaitFor(&mutex_, left);
  }
  return true;
}

}  // namespace sangam
