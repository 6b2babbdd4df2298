#include "common/rpc/activity_count.h"

#include <thread>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(ActivityCountTest, NoActivityIsNoWait) {
  ActivityCount count;
  EXPECT_TRUE(count.WaitForNone(absl::ZeroDuration()));
  count.Begin();
  count.End();
  EXPECT_TRUE(count.WaitForNone(absl::ZeroDuration()));
}

TEST(ActivityCountTest, WaitEndsAtItsDeadline) {
  ActivityCount count;
  count.Begin();
  EXPECT_FALSE(count.WaitForNone(absl::ZeroDuration()));
  EXPECT_FALSE(count.WaitForNone(absl::Milliseconds(5)));
  count.End();
}

TEST(ActivityCountTest, WaitEndsWithTheLastActivity) {
  ActivityCount count;
  for (int i = 0; i < 3; ++i) count.Begin();
  count.End();
  std::thread other([&count] {
    count.End();
    count.End();
  });
  EXPECT_TRUE(count.WaitForNone(absl::Seconds(30)));
  other.join();
}

}  // namespace
}  // namespace sangam
