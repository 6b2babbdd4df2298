#include "worker/layers/rms_norm.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/expect_near.h"
#include "tests/worker/layers/layer_harness.h"
#include "tests/worker/layers/sequence_ops.h"

namespace sangam {
namespace {

using testing::ExpectNear;
using testing::kUntouched;
using testing::LayerHarness;
using testing::NumericalGradient;
using testing::RandomFloats;
using testing::ToDouble;
using testing::Values;

double Dot(const Values& x, const Values& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

TEST(RmsNormTest, ValuesAndGradientsAreTheReferences) {
  // 3 positions of width 7, with 2 elements in front of the gain and 1 behind.
  constexpr int64_t kSize = 21;
  constexpr size_t kSegment = 2 + 7 + 1;
  RmsNormLayer::Options options;
  options.positions = 3;
  options.width = 7;
  options.epsilon = 0.01f;
  options.gain_offset = 2;
  const RmsNormLayer layer(options);
  const std::vector<float> weights = RandomFloats(kSegment, 1);
  const auto forward = [](const Values& x, const Values& segment) {
    return testing::RmsNorm(x, Values(segment.begin() + 2, segment.begin() + 9), double{0.01f});
  };
  for (const int64_t rows : {0, 1, 4}) {
    LayerHarness harness(layer, kSize, kSize, weights);
    const std::vector<float> x = RandomFloats(rows * kSize, 2);
    const std::vector<float> dy = RandomFloats(rows * kSize, 3);
    const Values dy_values = ToDouble(dy);
    ExpectNear(harness.Forward(x), forward(ToDouble(x), ToDouble(weights)), 1e-5);
    const std::vector<float> dx = harness.BackwardInput(dy);
    ExpectNear(dx,
               NumericalGradient(
                   [&](const Values& at) { return Dot(forward(at, ToDouble(weights)), dy_values); },
                   ToDouble(x)),
               1e-5);
    Values expected = NumericalGradient(
        [&](const Values& at) { return Dot(forward(ToDouble(x), at), dy_values); },
        ToDouble(weights));
    for (const size_t other : {size_t{0}, size_t{1}, kSegment - 1}) {
      expected[other] = double{kUntouched};
    }
    const std::vector<float> gradient =
        harness.BackwardWeights(false, std::vector<float>(kSegment, kUntouched));
    ExpectNear(gradient, expected, 3e-5);
    EXPECT_TRUE(harness.BackwardInput(dy, false).empty());
    const std::vector<float> before = RandomFloats(kSegment, 4);
    const std::vector<float> added = harness.BackwardWeights(true, before);
    for (size_t i = 2; i < 9; ++i) EXPECT_NEAR(added[i], before[i] + gradient[i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace sangam
