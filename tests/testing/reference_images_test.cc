#include "tests/testing/reference_images.h"

#include <cmath>
#include <cstddef>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/testing/reference_ops.h"

// Backward passes are the numerical derivatives of the forward passes, and some values by hand.
namespace sangam::testing {
namespace {

// No two elements alike, in no order.
Values Scattered(size_t size) {
  Values values;
  for (size_t i = 0; i < size; ++i) values.push_back(std::sin(7.0 + 3.0 * static_cast<double>(i)));
  return values;
}

double Dot(const Values& x, const Values& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

void ExpectNear(const Values& actual, const Values& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-7) << i;
}

TEST(ReferenceImagesTest, ConvolutionByHand) {
  // 3 x 3 pixels, a 2 x 2 kernel: the four corners' windows.
  const ReferenceWindow window = {3, 3, 1, 2, 2, 1, 0, 1};
  EXPECT_EQ(Conv2d(window, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 10, 100, 1000}, {0.5}),
            (Values{5421.5, 6532.5, 8754.5, 9865.5}));
  // Two channels, padded, stride 2: the last channel's weight comes last.
  const ReferenceWindow strided = {2, 2, 2, 2, 2, 2, 1, 1};
  EXPECT_EQ(Conv2d(strided, {1, 2, 3, 4, 6, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 8}, {}),
            (Values{23, 39, 42, 23}));
}

TEST(ReferenceImagesTest, ConvolutionBackwardIsTheDerivative) {
  const ReferenceWindow w = {4, 5, 2, 3, 2, 2, 1, 3};
  const Values x = Scattered(2 * w.in_elements());
  const Values weight = Scattered(w.weight_elements());
  const Values bias = Scattered(3);
  const Values dy = Scattered(2 * w.out_elements());
  const Conv2dGradients gradients = Conv2dBackward(w, x, weight, dy);
  ExpectNear(gradients.x, NumericalGradient(
                              [&](const Values& at) { return Dot(Conv2d(w, at, weight, bias), dy); },
                              x));
  ExpectNear(gradients.weight,
             NumericalGradient([&](const Values& at) { return Dot(Conv2d(w, x, at, bias), dy); },
                               weight));
  ExpectNear(gradients.bias,
             NumericalGradient([&](const Values& at) { return Dot(Conv2d(w, x, weight, at), dy); },
                               bias));
}

TEST(ReferenceImagesTest, PoolingByHand) {
  const ReferenceWindow w = {2, 3, 1, 2, 2, 1, 0, 1};
  EXPECT_EQ(MaxPool2d(w, {1, 5, 2, 4, 3, 5}), (Values{5, 5}));
  EXPECT_EQ(MaxPool2dBackward(w, {1, 5, 2, 4, 3, 5}, {10, 1}), (Values{0, 11, 0, 0, 0, 0}));
  EXPECT_EQ(AveragePool2d(w, {1, 5, 2, 4, 2, 7}), (Values{3, 4}));
  const ReferenceWindow padded = {1, 1, 1, 2, 2, 1, 1, 1};
  EXPECT_EQ(AveragePool2d(padded, {8}), (Values{2, 2, 2, 2}));
  EXPECT_EQ(MaxPool2d(padded, {-8}), (Values{-8, -8, -8, -8}));
}

TEST(ReferenceImagesTest, PoolingBackwardIsTheDerivative) {
  const ReferenceWindow w = {5, 4, 2, 3, 2, 2, 1, 2};
  const Values x = Scattered(2 * w.in_elements());
  const Values dy = Scattered(2 * w.out_elements());
  ExpectNear(MaxPool2dBackward(w, x, dy),
             NumericalGradient([&](const Values& at) { return Dot(MaxPool2d(w, at), dy); }, x));
  ExpectNear(AveragePool2dBackward(w, x, dy),
             NumericalGradient([&](const Values& at) { return Dot(AveragePool2d(w, at), dy); }, x));
}

}  // namespace
}  // namespace sangam::testing
