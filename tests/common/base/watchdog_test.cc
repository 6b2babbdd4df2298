#include "common/base/watchdog.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"

namespace sangam {
namespace {

TEST(WatchdogTest, NamesTheLoopsThatDoNotTurn) {
  FakeClock clock;
  Watchdog watchdog(&clock);
  EXPECT_EQ(watchdog.Stuck(), "");
  Watchdog::Pulse* const fast = watchdog.Add("main", absl::Seconds(10));
  watchdog.Add("ticker", absl::Seconds(30));
  clock.Advance(absl::Seconds(10));
  EXPECT_EQ(watchdog.Stuck(), "");
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(watchdog.Stuck(), "main: stuck for 11s");
  fast->Beat();
  EXPECT_EQ(watchdog.Stuck(), "");
  clock.Advance(absl::Seconds(20));
  EXPECT_EQ(watchdog.Stuck(), "main: stuck for 20s\nticker: stuck for 31s");
}

}  // namespace
}  // namespace sangam
