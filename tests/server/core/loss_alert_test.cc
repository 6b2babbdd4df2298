#include "server/core/loss_alert.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

v1::LossAlertSpec Spec(float factor, uint32_t window) {
  v1::LossAlertSpec spec;
  spec.set_factor(factor);
  spec.set_window(window);
  return spec;
}

TEST(LossAlertTest, WarnsWhenALossExceedsTheMeanOfTheWindow) {
  LossAlert alert(Spec(3, 2));
  EXPECT_FALSE(alert.Add(0, 100, 8).has_value());
  EXPECT_FALSE(alert.Add(1, 2, 8).has_value());
  EXPECT_FALSE(alert.Add(2, 4, 8).has_value());
  EXPECT_FALSE(alert.Add(3, 9, 8).has_value());  // 3 times the mean of 2 and 4, not more
  EXPECT_EQ(alert.Add(4, 26, 8),
            "step 4: the loss is 26, 4 times the mean of the 2 steps before (6.5)");
}

TEST(LossAlertTest, SmallBatchesAreNotCompared) {
  LossAlert alert(Spec(2, 4));
  for (uint64_t step = 0; step < 4; ++step) EXPECT_FALSE(alert.Add(step, 1, 8).has_value());
  EXPECT_FALSE(alert.Add(4, 50, 3).has_value());
  // Neither do they count in the mean.
  EXPECT_EQ(alert.Add(5, 3, 4),
            "step 5: the loss is 3, 3 times the mean of the 4 steps before (1)");
  LossAlert infinite(Spec(2, 4));
  infinite.Add(0, 1, 8);
  EXPECT_TRUE(infinite.Add(1, HUGE_VAL, 1).has_value());
}

TEST(LossAlertTest, WarnsOnceInAWindow) {
  LossAlert alert(Spec(2, 3));
  alert.Add(0, 1, 8);
  EXPECT_TRUE(alert.Add(1, 10, 8).has_value());
  EXPECT_FALSE(alert.Add(2, 100, 8).has_value());
  EXPECT_FALSE(alert.Add(3, 1000, 8).has_value());
  EXPECT_TRUE(alert.Add(4, 10000, 8).has_value());
}

TEST(LossAlertTest, WarnsOfALossThatIsNotFiniteAndLeavesItOut) {
  LossAlert alert(Spec(2, 2));
  EXPECT_EQ(alert.Add(0, std::nan(""), 8), "step 0: the loss is not finite (nan)");
  alert.Add(1, 1, 8);
  alert.Add(2, 1, 8);
  EXPECT_TRUE(alert.Add(3, 3, 8).has_value());
}

TEST(LossAlertTest, TheFirstStepsAreNoMeasure) {
  LossAlert alert(Spec(2, 100));
  for (uint64_t step = 0; step < 9; ++step) EXPECT_FALSE(alert.Add(step, 1, 8).has_value());
  EXPECT_FALSE(alert.Add(9, 50, 8).has_value());
  EXPECT_TRUE(alert.Add(10, 50, 8).has_value());
}

TEST(LossAlertTest, SaysNothingWhenItIsOff) {
  v1::LossAlertSpec spec = Spec(2, 2);
  spec.set_off(true);
  LossAlert alert(spec);
  EXPECT_FALSE(alert.Add(0, std::nan(""), 8).has_value());
}

}  // namespace
}  // namespace sangam
