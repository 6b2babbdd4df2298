#include "common/base/mutex.h"

#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

struct Counter {
  Mutex mutex;
  CondVar changed;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, KeepsThreadsApart) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < 10000; ++i) {
        MutexLock lock(&counter.mutex);
        ++counter.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(&counter.mutex);
  EXPECT_EQ(counter.value, 40000);
}

TEST(CondVarTest, WakesOnSignal) {
  Counter counter;
  std::thread thread([&counter] {
    MutexLock lock(&counter.mutex);
    counter.value = 1;
    counter.changed.SignalAll();
  });
  {
    MutexLock lock(&counter.mutex);
    for (int tries = 0; counter.value == 0 && tries < 1000; ++tries) {
      counter.changed.WaitFor(&counter.mutex, absl::Seconds(1));
    }
    EXPECT_EQ(counter.value, 1);
  }
  thread.join();
}

TEST(CondVarTest, EndsAtTheTimeout) {
  Counter counter;
  MutexLock lock(&counter.mutex);
  // A wait may also wake without reason, so only a false proves the timeout.
  bool timed_out = false;
  for (int tries = 0; !timed_out && tries < 1000; ++tries) {
    timed_out = !counter.changed.WaitFor(&counter.mutex, absl::Milliseconds(1));
  }
  EXPECT_TRUE(timed_out);
}

}  // namespace
}  // namespace sangam
