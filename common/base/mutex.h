#ifndef SANGAM_COMMON_BASE_MUTEX_H_
#define SANGAM_COMMON_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

// A mutex over std::mutex with Abseil's thread-safety annotations. Debian's prebuilt absl::Mutex
// is not instrumented, so ThreadSanitizer reports races on correct code that uses it.
namespace sangam {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex for the lifetime of the object.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// Waits may wake without reason: call them in a loop over the condition.
class CondVar {
 public:
  // Returns after a signal or after `timeout`; false: the timeout passed.
  bool WaitFor(Mutex* mutex, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    // The system clock and not the steady one: gcc's ThreadSanitizer does not know
    // pthread_cond_clockwait. A wait may thus end early or late when the clock is set; callers
    // loop over their condition and keep their own deadline.
    const auto until = std::chrono::system_clock::now() +
                       absl::ToChronoNanoseconds(timeout < kLongest ? timeout : kLongest);
    const bool signalled = condition_.wait_until(lock, until) == std::cv_status::no_timeout;
    lock.release();
    return signalled;
  }
  void Signal() { condition_.notify_one(); }
  void SignalAll() { condition_.notify_all(); }

 private:
  // A bound, so that no wait is for ever and the addition above cannot overflow.
  static constexpr absl::Duration kLongest = absl::Hours(1);
  std::condition_variable condition_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_MUTEX_H_
