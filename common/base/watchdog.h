#ifndef SANGAM_COMMON_BASE_WATCHDOG_H_
#define SANGAM_COMMON_BASE_WATCHDOG_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace sangam {

// Sees whether the loops of a process still turn: each beats, and one that has not beaten for too
// long is stuck. Thread-safe.
class Watchdog {
 public:
  // One loop. Beat costs a store: it may be called as often as the loop turns.
  class Pulse {
   public:
    void Beat() {
      at_.store(absl::ToInt64Milliseconds(clock_.Steady()), std::memory_order_relaxed);
    }

   private:
    friend class Watchdog;
    Pulse(std::string name, absl::Duration limit, const Clock* clock)
        : name_(std::move(name)), limit_(limit), clock_(*clock) {
      Beat();
    }

    const std::string name_;
    const absl::Duration limit_;
    const Clock& clock_;
    std::atomic<int64_t> at_{0};
  };

  // `clock` must outlive the object.
  explicit Watchdog(const Clock* clock = &Clock::Real()) : clock_(*clock) {}

  // A loop that beats more often than once in `limit`; from now on. Lives as long as the watchdog.
  Pulse* Add(std::string name, absl::Duration limit);

  // Empty while all loops turn, else which ones do not, and for how long.
  std::string Stuck() const;

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Pulse>> pulses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_WATCHDOG_H_
