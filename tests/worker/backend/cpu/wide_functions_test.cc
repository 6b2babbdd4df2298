#include "worker/backend/cpu/wide_functions.h"

#include <cmath>

#include "gtest/gtest.h"

namespace sangam::cpu_functions {
namespace {

TEST(WideFunctionsTest, LogIsAccurate) {
  EXPECT_EQ(WideLog(1.0), 0.0);
  EXPECT_TRUE(std::isnan(WideLog(std::nan(""))));
  for (double x = 1e-300; x < 1e300; x *= 1.37) {
    const double exact = std::log(x);
    ASSERT_NEAR(WideLog(x), exact, 1e-15 * (1 + std::abs(exact))) << x;
  }
  // Around 1 the result is small, and so is its error.
  for (double x = 0.6; x < 1.6; x += 0.0007) ASSERT_NEAR(WideLog(x), std::log(x), 2e-16) << x;
}

TEST(WideFunctionsTest, ExpIsAccurate) {
  EXPECT_EQ(WideExp(0.0), 1.0);
  for (double x = -700; x <= 700; x += 0.137) {
    const double exact = std::exp(x);
    ASSERT_NEAR(WideExp(x) / exact, 1.0, 1e-14) << x;
  }
}

TEST(WideFunctionsTest, SinAndCosAreAccurate) {
  EXPECT_EQ(WideSinCos(0.0).sin, 0.0);
  EXPECT_EQ(WideSinCos(0.0).cos, 1.0);
  for (double x = -20; x <= 1048576; x = x * 1.0003 + 0.013) {
    ASSERT_NEAR(WideSinCos(x).sin, std::sin(x), 1e-14) << x;
    ASSERT_NEAR(WideSinCos(x).cos, std::cos(x), 1e-14) << x;
    if (x < 0) x += 0.1;
  }
  ASSERT_NEAR(WideSinCos(1048576.0).sin, std::sin(1048576.0), 1e-14);
}

}  // namespace
}  // namespace sangam::cpu_functions
