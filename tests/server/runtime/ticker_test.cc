#include "server/runtime/ticker.h"

#include <optional>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

// Counts calls and waits for them.
class Counter {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++count_;
    changed_.SignalAll();
  }
  // False: it took more than 20 seconds.
  bool WaitFor(int count) {
    const absl::Duration deadline = Clock::Real().Steady() + absl::Seconds(20);
    MutexLock lock(&mutex_);
    while (count_ < count) {
      const absl::Duration left = deadline - Clock::Real().Steady();
      if (left <= absl::ZeroDuration()) return false;
      changed_.WaitFor(&mutex_, left);
    }
    return true;
  }
  int count() {
    MutexLock lock(&mutex_);
    return count_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(TickerTest, CallsAgainAndAgain) {
  Counter counter;
  const Ticker ticker(absl::Milliseconds(1), [&counter] { counter.Add(); });
  EXPECT_TRUE(counter.WaitFor(5));
}

TEST(TickerTest, EndsAtOnceAlthoughThePeriodIsLong) {
  Counter counter;
  const absl::Duration begin = Clock::Real().Steady();
  {
    const Ticker ticker(absl::Hours(1), [&counter] { counter.Add(); });
    EXPECT_TRUE(counter.WaitFor(1));
  }
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(20));
}

TEST(TickerTest, NoCallComesAfterTheEnd) {
  Counter counter;
  std::optional<Ticker> ticker;
  ticker.emplace(absl::Microseconds(10), [&counter] { counter.Add(); });
  EXPECT_TRUE(counter.WaitFor(3));
  ticker.reset();
  const int count = counter.count();
  const Ticker other(absl::Milliseconds(1), [] {});
  EXPECT_EQ(counter.count(), count);
}

}  // namespace
}  // namespace sangam
