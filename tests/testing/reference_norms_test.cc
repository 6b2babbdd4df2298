#include "tests/testing/reference_norms.h"

#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/testing/reference_ops.h"

// Backward passes are the numerical derivatives of the forward passes, and some values by hand.
namespace sangam::testing {
namespace {

Values Scattered(size_t size, double first) {
  Values values;
  for (size_t i = 0; i < size; ++i) {
    values.push_back(std::sin(first + 3.0 * static_cast<double>(i)));
  }
  return values;
}

double Dot(const Values& x, const Values& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

void ExpectNear(const Values& actual, const Values& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-7) << i;
}

TEST(ReferenceNormsTest, ByHand) {
  const Values x = {1, 10, 3, 30};
  const Moments moments = ColumnMoments(2, x);
  EXPECT_EQ(moments.mean, (Values{2, 20}));
  EXPECT_EQ(moments.variance, (Values{1, 100}));
  EXPECT_EQ(NormalizeColumns(2, x, {{1, 10}, {3, 9}}, 1, {2, 4}, {5, 6}),
            (Values{5, 6, 7, 6 + 80 / std::sqrt(10.0)}));
  EXPECT_EQ(LayerNorm(2, {1, 3, 10, 30}, 0, {2, 3}, {0, 1}), (Values{-2, 4, -2, 4}));
  EXPECT_EQ(SquaredError({1, 2}, {3, 5}), 13);
  EXPECT_NEAR(BinaryCrossEntropy({0, 1}, {1, 0}), std::log(2.0) - std::log(1 - Sigmoid({1})[0]),
              1e-12);
}

using Norm = std::function<Values(const Values& x, const Values& gain, const Values& bias)>;

void ExpectDerivative(const NormGradients& gradients, const Norm& norm, const Values& x,
                      const Values& gain, const Values& dy) {
  const Values bias = Scattered(gain.size(), 9);
  ExpectNear(gradients.x, NumericalGradient(
                              [&](const Values& at) { return Dot(norm(at, gain, bias), dy); }, x));
  ExpectNear(gradients.gain,
             NumericalGradient([&](const Values& at) { return Dot(norm(x, at, bias), dy); }, gain));
  ExpectNear(gradients.bias,
             NumericalGradient([&](const Values& at) { return Dot(norm(x, gain, at), dy); }, bias));
}

TEST(ReferenceNormsTest, BackwardIsTheDerivative) {
  const Values x = Scattered(5 * 3, 1);
  const Values gain = Scattered(3, 2);
  const Values dy = Scattered(5 * 3, 4);
  ExpectDerivative(
      BatchNormBackward(3, x, 0.1, gain, dy),
      [](const Values& at, const Values& g, const Values& b) {
        return NormalizeColumns(3, at, ColumnMoments(3, at), 0.1, g, b);
      },
      x, gain, dy);
  ExpectDerivative(
      LayerNormBackward(3, x, 0.1, gain, dy),
      [](const Values& at, const Values& g, const Values& b) {
        return LayerNorm(3, at, 0.1, g, b);
      },
      x, gain, dy);
}

TEST(ReferenceNormsTest, SigmoidBackwardIsTheDerivative) {
  const Values x = Scattered(5, 1);
  const Values dy = Scattered(5, 2);
  EXPECT_NEAR(Sigmoid({std::log(3.0)})[0], 0.75, 1e-12);
  ExpectNear(SigmoidBackward(x, dy),
             NumericalGradient([&](const Values& at) { return Dot(Sigmoid(at), dy); }, x));
}

}  // namespace
}  // namespace sangam::testing
