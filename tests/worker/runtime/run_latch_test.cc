#include "worker/runtime/run_latch.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(RunLatchTest, TheFirstReasonCounts) {
  RunLatch latch;
  EXPECT_FALSE(latch.tripped());
  EXPECT_TRUE(latch.reason().ok());
  EXPECT_TRUE(latch.Trip(absl::DataLossError("first")));
  EXPECT_FALSE(latch.Trip(absl::InternalError("second")));
  EXPECT_TRUE(latch.tripped());
  EXPECT_TRUE(latch.flag()->load());
  EXPECT_EQ(latch.reason(), absl::DataLossError("first"));
}

TEST(RunLatchTest, ExactlyOneOfManyThreadsTripsIt) {
  RunLatch latch;
  std::atomic<int> first{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&latch, &first, i] {
      if (latch.Trip(absl::InternalError(absl::StrCat(i)))) ++first;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first, 1);
}

}  // namespace
}  // namespace sangam
