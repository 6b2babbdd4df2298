#include "worker/backend/cpu/functions.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "gtest/gtest.h"

namespace sangam::cpu_functions {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kSmallestNormal = 0x1p-126;

// Calls visit(x) for every 997th finite float: 4.3 million, of both signs and all magnitudes.
template <typename Visit>
void ForManyFloats(const Visit& visit) {
  for (uint64_t bits = 0; bits <= std::numeric_limits<uint32_t>::max(); bits += 997) {
    const auto low = static_cast<uint32_t>(bits);
    float x;
    std::memcpy(&x, &low, sizeof(x));
    if (std::isfinite(x)) visit(x);
  }
}

// Error in units of the last place of the exact result.
double Ulps(float actual, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(actual - exact) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

TEST(CpuFunctionsTest, ExpIsWithinOneUlp) {
  double worst = 0;
  ForManyFloats([&](float x) {
    if (x >= -87.3f && x <= 88.0f) worst = std::max(worst, Ulps(Exp(x), std::exp(double{x})));
  });
  EXPECT_LE(worst, 1.0);
  EXPECT_GT(worst, 0.5);  // the loop did look
}

TEST(CpuFunctionsTest, ExpIsZeroFarBelow) {
  EXPECT_EQ(Exp(-87.4f), 0.0f);
  EXPECT_EQ(Exp(-1e30f), 0.0f);
  EXPECT_EQ(Exp(-kInfinity), 0.0f);
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(Exp(std::nanf(""))));
}

TEST(CpuFunctionsTest, TanhIsWithinOneAndAHalfUlp) {
  double worst = 0;
  ForManyFloats([&](float x) { worst = std::max(worst, Ulps(Tanh(x), std::tanh(double{x}))); });
  EXPECT_LE(worst, 1.5);
  EXPECT_GT(worst, 0.5);
}

TEST(CpuFunctionsTest, TanhIsOddAndBounded) {
  for (const float x : {0.1f, 0.624f, 0.626f, 3.0f, 9.0f, 50.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(Tanh(-x), -Tanh(x)) << x;
    EXPECT_LE(Tanh(x), 1.0f) << x;
  }
  EXPECT_EQ(Tanh(kInfinity), 1.0f);
  EXPECT_TRUE(std::isnan(Tanh(std::nanf(""))));
}

TEST(CpuFunctionsTest, SigmoidIsWithinThreeUlp) {
  double worst = 0;
  ForManyFloats([&](float x) {
    const double exact =
        x < 0 ? std::exp(double{x}) / (1 + std::exp(double{x})) : 1 / (1 + std::exp(-double{x}));
    if (x > -87.3f) worst = std::max(worst, Ulps(Sigmoid(x), exact));
  });
  EXPECT_LE(worst, 3.0);
  EXPECT_GT(worst, 0.5);
}

TEST(CpuFunctionsTest, SigmoidFarOut) {
  EXPECT_EQ(Sigmoid(0.0f), 0.5f);
  EXPECT_EQ(Sigmoid(kInfinity), 1.0f);
  EXPECT_EQ(Sigmoid(-kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(Sigmoid(std::nanf(""))));
}

TEST(CpuFunctionsTest, TailOfTheNormalDistributionIsAccurateFarOut) {
  double worst = 0;
  ForManyFloats([&](float x) {
    const double exact = 0.5 * std::erfc(std::abs(double{x}) / std::sqrt(2.0));
    if (exact < kSmallestNormal) return;
    worst = std::max(worst, std::abs(NormalAt(x).tail - exact) / exact);
  });
  EXPECT_LE(worst, 5e-7);
  EXPECT_GT(worst, 1e-8);
}

TEST(CpuFunctionsTest, GeluIsAccurateInItsTailToo) {
  double worst = 0;
  ForManyFloats([&](float x) {
    const double exact = double{x} * 0.5 * std::erfc(-double{x} / std::sqrt(2.0));
    if (std::abs(exact) < kSmallestNormal) return;
    worst = std::max(worst, std::abs(Gelu(x) - exact) / std::abs(exact));
  });
  EXPECT_LE(worst, 1e-6);
  EXPECT_GT(worst, 1e-8);
}

TEST(CpuFunctionsTest, GeluDerivativeIsAccurate) {
  double worst = 0;
  ForManyFloats([&](float x) {
    const double phi = 0.5 * std::erfc(-double{x} / std::sqrt(2.0));
    const double density = std::exp(-0.5 * double{x} * double{x}) * 0.39894228040143268;
    worst = std::max(worst, std::abs(GeluDerivative(x) - (phi + double{x} * density)));
  });
  EXPECT_LE(worst, 3e-7);
  EXPECT_GT(worst, 1e-8);
}

}  // namespace
}  // namespace sangam::cpu_functions
