#include "worker/layers/linear.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/expect_near.h"
#include "tests/worker/layers/layer_harness.h"

namespace sangam {
namespace {

using testing::ExpectNear;
using testing::kUntouched;
using testing::LayerHarness;
using testing::LinearShape;
using testing::NumericalGradient;
using testing::RandomFloats;
using testing::ToDouble;
using testing::Values;

// Sums of at most 13 products of numbers up to 1, or of 9 rows: 32 roundings of 13 are 2.5e-5.
constexpr double kTolerance = 2.5e-5;

struct Case {
  int64_t rows;
  bool bias;
  bool relu;
};

// A layer from 13 to 6 features whose parameters do not begin at the segment's start.
class LinearTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kIn = 13;
  static constexpr int64_t kOut = 6;
  static constexpr int64_t kWeightOffset = 3;
  static constexpr int64_t kBiasOffset = kWeightOffset + kIn * kOut;
  static constexpr int64_t kSegment = kBiasOffset + kOut + 2;

  static LinearLayer::Options Options() {
    LinearLayer::Options options;
    options.in_features = kIn;
    options.out_features = kOut;
    options.weight_offset = kWeightOffset;
    if (GetParam().bias) options.bias_offset = kBiasOffset;
    options.relu = GetParam().relu;
    return options;
  }

  // The layer by the reference.
  static Values Reference(const Values& x, const Values& segment) {
    const LinearShape shape = {static_cast<size_t>(GetParam().rows), kIn, kOut};
    const Values w(segment.begin() + kWeightOffset, segment.begin() + kBiasOffset);
    const Values b = GetParam().bias ? Values(segment.begin() + kBiasOffset,
                                              segment.begin() + kBiasOffset + kOut)
                                     : Values();
    const Values y = testing::LinearForward(shape, x, w, b);
    return GetParam().relu ? testing::Relu(y) : y;
  }

  static double Dot(const Values& x, const Values& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  }

  const LinearLayer layer_ = LinearLayer(Options());
  const std::vector<float> segment_ = RandomFloats(kSegment, 1);
  const std::vector<float> x_ = RandomFloats(GetParam().rows * kIn, 2);
  const std::vector<float> dy_ = RandomFloats(GetParam().rows * kOut, 3);
  LayerHarness harness_ = LayerHarness(layer_, kIn, kOut, segment_);
};

TEST_P(LinearTest, ForwardIsTheReference) {
  ExpectNear(harness_.Forward(x_), Reference(ToDouble(x_), ToDouble(segment_)), kTolerance);
}

TEST_P(LinearTest, GradientsAreTheDerivatives) {
  harness_.Forward(x_);
  const Values dy = ToDouble(dy_);
  ExpectNear(harness_.BackwardInput(dy_),
             NumericalGradient(
                 [&](const Values& at) { return Dot(Reference(at, ToDouble(segment_)), dy); },
                 ToDouble(x_)),
             kTolerance);

  const std::vector<float> before(kSegment, kUntouched);
  const std::vector<float> gradient = harness_.BackwardWeights(false, before);
  Values expected = NumericalGradient(
      [&](const Values& at) { return Dot(Reference(ToDouble(x_), at), dy); }, ToDouble(segment_));
  // What is no parameter of this layer stays as it was.
  const auto mine = [&](int64_t i) {
    return i >= kWeightOffset && i < (GetParam().bias ? kBiasOffset + kOut : kBiasOffset);
  };
  for (int64_t i = 0; i < kSegment; ++i) {
    if (!mine(i)) expected[static_cast<size_t>(i)] = double{kUntouched};
  }
  ExpectNear(gradient, expected, kTolerance);

  // Accumulating adds the same.
  const std::vector<float> some = RandomFloats(kSegment, 4);
  const std::vector<float> accumulated = harness_.BackwardWeights(true, some);
  for (int64_t i = 0; i < kSegment; ++i) {
    const auto at = static_cast<size_t>(i);
    const double added = mine(i) ? gradient[at] : 0.0;
    EXPECT_NEAR(accumulated[at], some[at] + added, kTolerance) << i;
  }
}

TEST_P(LinearTest, WeightGradientNeedsNoInputGradient) {
  harness_.Forward(x_);
  harness_.BackwardInput(dy_);
  const std::vector<float> before(kSegment, 0.0f);
  const std::vector<float> gradient = harness_.BackwardWeights(false, before);
  harness_.Forward(x_);
  EXPECT_TRUE(harness_.BackwardInput(dy_, false).empty());
  EXPECT_EQ(harness_.BackwardWeights(false, before), gradient);
}

INSTANTIATE_TEST_SUITE_P(Cases, LinearTest,
                         ::testing::Values(Case{1, true, false}, Case{9, true, false},
                                           Case{9, false, false}, Case{9, true, true},
                                           Case{9, false, true}, Case{0, true, false},
                                           Case{0, true, true}));

}  // namespace
}  // namespace sangam
