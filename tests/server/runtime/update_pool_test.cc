#include "server/runtime/update_pool.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

bool WaitFor(const std::atomic<int>& count, int expected) {
  const absl::Time deadline = absl::Now() + kLong;
  while (count.load() < expected && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  return count.load() == expected;
}

TEST(UpdatePoolTest, CallsWithEveryIndexOnce) {
  std::vector<std::atomic<int>> calls(1000);
  std::atomic<int> total{0};
  UpdatePool pool(4);
  for (int batch = 0; batch < 3; ++batch) {
    pool.ForEach(calls.size(), [&](size_t i) {
      calls[i].fetch_add(1);
      total.fetch_add(1);
    });
  }
  pool.ForEach(0, [](size_t) { FAIL(); });
  EXPECT_TRUE(WaitFor(total, 3000));
  for (const std::atomic<int>& count : calls) EXPECT_EQ(count.load(), 3);
}

TEST(UpdatePoolTest, WorksOnSeveralThreadsAtOnce) {
  std::atomic<int> inside{0};
  UpdatePool pool(2);
  // Each call waits for the other.
  pool.ForEach(2, [&inside](size_t) {
    inside.fetch_add(1);
    EXPECT_TRUE(WaitFor(inside, 2));
  });
  EXPECT_TRUE(WaitFor(inside, 2));
}

TEST(UpdatePoolTest, LetsGoOfWorkThatIsDone) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  UpdatePool pool(2);
  std::atomic<int> total{0};
  pool.ForEach(10, [held, &total](size_t) { total.fetch_add(1); });
  held.reset();
  EXPECT_TRUE(WaitFor(total, 10));
  const absl::Time deadline = absl::Now() + kLong;
  while (!watch.expired() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace sangam
