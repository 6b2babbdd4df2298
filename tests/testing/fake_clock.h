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
    ++steady_reads_;
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

  // How often Steady has been read: shows how far a waiting thread has come.
  int steady_reads() const {
    MutexLock lock(&mutex_);
    return steady_reads_;
  }

 private:
  mutable Mutex mutex_;
  mutable int steady_reads_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration elapsed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_TESTS_TESTING_FAKE_CLOCK_H_
