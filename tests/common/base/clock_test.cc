#include "common/base/clock.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(ClockTest, SteadyNeverGoesBack) {
  const Clock& clock = Clock::Real();
  absl::Duration last = clock.Steady();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = clock.Steady();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(ClockTest, WallIsAfterThisWasWritten) {
  EXPECT_GT(Clock::Real().Wall(), absl::FromUnixSeconds(1750000000));
}

}  // namespace
}  // namespace sangam
