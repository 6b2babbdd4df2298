#include "tests/testing/reference_ops.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

// The reference itself: its backward passes are the numerical derivatives of its forward passes,
// which are short enough to be right by looking, and a few values known otherwise.
namespace sangam::testing {
namespace {

Values Ramp(size_t size, double first, double step) {
  Values values;
  for (size_t i = 0; i < size; ++i) values.push_back(first + step * static_cast<double>(i));
  return values;
}

double Dot(const Values& x, const Values& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

void ExpectNear(const Values& actual, const Values& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-7) << i;
}

TEST(ReferenceOpsTest, LinearByHand) {
  EXPECT_EQ(LinearForward({1, 2, 3}, {1, 2}, {1, 0, 0, 1, 1, 1}, {10, 20, 30}),
            (Values{11, 22, 33}));
  EXPECT_EQ(LinearForward({1, 2, 1}, {1, 2}, {3, 4}, {}), (Values{11}));
}

TEST(ReferenceOpsTest, LinearBackwardIsTheDerivative) {
  const LinearShape shape = {3, 4, 2};
  const Values x = Ramp(12, -1, 0.31);
  const Values w = Ramp(8, 0.5, -0.2);
  const Values b = {0.1, -0.3};
  const Values dy = Ramp(6, -0.7, 0.4);
  const LinearGradients gradients = LinearBackward(shape, x, w, dy);
  ExpectNear(gradients.x,
             NumericalGradient(
                 [&](const Values& at) { return Dot(LinearForward(shape, at, w, b), dy); }, x));
  ExpectNear(gradients.w,
             NumericalGradient(
                 [&](const Values& at) { return Dot(LinearForward(shape, x, at, b), dy); }, w));
  ExpectNear(gradients.b,
             NumericalGradient(
                 [&](const Values& at) { return Dot(LinearForward(shape, x, w, at), dy); }, b));
}

TEST(ReferenceOpsTest, ActivationBackwardsAreTheDerivatives) {
  const Values x = Ramp(21, -3.05, 0.31);
  const Values dy = Ramp(21, 1, -0.13);
  const auto derivative = [&](Values (*forward)(const Values&)) {
    return NumericalGradient([&](const Values& at) { return Dot(forward(at), dy); }, x);
  };
  ExpectNear(ReluBackward(x, dy), derivative(&Relu));
  ExpectNear(GeluBackward(x, dy), derivative(&Gelu));
  ExpectNear(TanhBackward(x, dy), derivative(&Tanh));
}

TEST(ReferenceOpsTest, KnownValues) {
  EXPECT_EQ(Relu({-2, 0, 3}), (Values{0, 0, 3}));
  // Phi(1) = 0.841344746068543 (Abramowitz & Stegun, table 26.1).
  ExpectNear(Gelu({1, -1}), {0.841344746068543, -(1 - 0.841344746068543)});
  ExpectNear(Tanh({0.5}), {0.46211715726001});
}

TEST(ReferenceOpsTest, SoftmaxCrossEntropyGradientIsTheDerivative) {
  const Values logits = {0.3, -1.2, 2.0, 0.1, 0.1, -0.4};
  const std::vector<uint32_t> labels = {2, 1};
  const ReferenceLoss loss = SoftmaxCrossEntropy(logits, labels, 3);
  // The second row's largest is at 0, the first of equals.
  EXPECT_EQ(loss.correct, 1u);
  ExpectNear(
      loss.gradient,
      NumericalGradient([&](const Values& at) { return SoftmaxCrossEntropy(at, labels, 3).loss; },
                        logits));
  EXPECT_NEAR(SoftmaxCrossEntropy({0, 0, 0, 0}, {3}, 4).loss, std::log(4.0), 1e-12);
}

TEST(ReferenceOpsTest, RmsNormByHand) {
  // Mean squares 12.5 and 2.5.
  const RmsNormValues values = RmsNorm(2, {3, 4, 1, 2}, {1, 10}, 3.5);
  ExpectNear(values.inverse_rms, {0.25, 1 / std::sqrt(6.0)});
  ExpectNear(values.y, {0.75, 10, 1 / std::sqrt(6.0), 20 / std::sqrt(6.0)});
}

TEST(ReferenceOpsTest, RmsNormBackwardIsTheDerivative) {
  const Values x = Ramp(12, -1.2, 0.31);
  const Values gain = Ramp(4, 0.5, 0.4);
  const Values dy = Ramp(12, 1, -0.17);
  const RmsNormGradients gradients = RmsNormBackward(4, x, gain, 0.01, dy);
  ExpectNear(gradients.x,
             NumericalGradient(
                 [&](const Values& at) { return Dot(RmsNorm(4, at, gain, 0.01).y, dy); }, x));
  ExpectNear(gradients.gain,
             NumericalGradient([&](const Values& at) { return Dot(RmsNorm(4, x, at, 0.01).y, dy); },
                               gain));
}

TEST(ReferenceOpsTest, RotateByHand) {
  // Two positions, one head of width 4, base 16: angles t and t / 4.
  Values x(2 * 12, 0.0);
  for (size_t i = 0; i < x.size(); i += 2) x[i] = 1;
  const Values y = Rotate({1, 2, 1, 4}, 16, 1, x);
  const Values turned = {std::cos(1), std::sin(1), std::cos(0.25), std::sin(0.25)};
  ExpectNear({y.begin(), y.begin() + 12}, {x.begin(), x.begin() + 12});
  ExpectNear({y.begin() + 12, y.begin() + 16}, turned);
  ExpectNear({y.begin() + 16, y.begin() + 20}, turned);
  ExpectNear({y.begin() + 20, y.end()}, {1, 0, 1, 0});
  ExpectNear(Rotate({1, 2, 1, 4}, 16, -1, y), x);
}

TEST(ReferenceOpsTest, CausalAttentionByHand) {
  // Equal scores: means of the values so far, and the logarithm of their number.
  const Values x = {0, 1, 5, 0, 1, 7, 0, 1, 9};
  const AttentionValues values = CausalAttention({1, 3, 1, 1}, x);
  ExpectNear(values.y, {5, 6, 7});
  ExpectNear(values.log_sum, {0, std::log(2.0), std::log(3.0)});
  // Scores 2 and 4 of width 4: exp(1) and exp(2).
  const AttentionValues two = CausalAttention(
      {1, 2, 1, 4}, {9, 9, 9, 9, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0, 1, 0, 0});
  const double part = 1 / (1 + std::exp(1.0));
  ExpectNear({two.y.begin() + 4, two.y.end()}, {part, 1 - part, 0, 0});
}

TEST(ReferenceOpsTest, CausalAttentionBackwardIsTheDerivative) {
  const SequenceShape shape = {2, 3, 2, 2};
  Values x = Ramp(2 * 3 * 3 * 4, -1.1, 0.07);
  for (size_t i = 0; i < x.size(); i += 3) x[i] = -0.6 * x[i];
  const Values dy = Ramp(2 * 3 * 4, 1, -0.13);
  ExpectNear(CausalAttentionBackward(shape, x, dy),
             NumericalGradient(
                 [&](const Values& at) { return Dot(CausalAttention(shape, at).y, dy); }, x));
}

TEST(ReferenceOpsTest, DropoutFactorsAreZeroOrTheScale) {
  const Values factors = DropoutFactors({7, 3, 1, 40}, 0.25, 100, 100);
  size_t kept = 0;
  for (const double factor : factors) {
    ASSERT_TRUE(factor == 0.0 || factor == 1.0 / 0.75);
    if (factor != 0.0) ++kept;
  }
  // Five standard deviations of 10,000 draws: 217.
  EXPECT_NEAR(static_cast<double>(kept), 7500, 217);
  EXPECT_NE(factors, DropoutFactors({7, 4, 1, 40}, 0.25, 100, 100));
}

}  // namespace
}  // namespace sangam::testing
