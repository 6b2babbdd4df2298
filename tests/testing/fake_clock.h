#ifndef SANGAM_TESTS_TESTING_FAKE_CLOCK_H_
#define SANGAM_TESTS_TESTING_FAKE_CLOCK_H_

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace sangam {

// A clock that goes on only when it is told to. Thread-safe.
class FakeClock final : public Clock {
 public:
  absl::Duration Steady() const override {
    MutexLock lock(&mutex_);
    return absl::Hours(1) + elapsed_;
  }
  absl::Time Wall() const override {
    MutexLock lock(&mutex_);
    return absl::FromUnixSeconds(1'700'000'000) + elapsed_;
  }

  void Advance(absl::Duration duration) {
    MutexLock lock(&mutex_);
    elapsed_ += duration;
  }

 private:
  mutable Mutex mutex_;
  absl::Duration elapsed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_TESTS_TESTING_FAKE_CLOCK_H_
