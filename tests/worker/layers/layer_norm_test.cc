#include "worker/layers/layer_norm.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_norms.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/expect_near.h"
#include "tests/worker/layers/layer_harness.h"

namespace sangam {
namespace {

using testing::ExpectNear;
using testing::kUntouched;
using testing::LayerHarness;
using testing::NumericalGradient;
using testing::RandomFloats;
using testing::ToDouble;
using testing::Values;

TEST(LayerNormTest, ValuesAndGradientsAreTheReferences) {
  // 3 positions of width 4, with 1 element in front of the bias and 1 between it and the gain.
  constexpr int64_t kSize = 12;
  LayerNormLayer::Options options;
  options.positions = 3;
  options.width = 4;
  options.epsilon = 0.01f;
  options.bias_offset = 1;
  options.gain_offset = 6;
  const LayerNormLayer layer(options);
  const std::vector<float> weights = RandomFloats(10, 1);
  const auto forward = [](const Values& x, const Values& w) {
    return testing::LayerNorm(4, x, double{0.01f}, Values(w.begin() + 6, w.end()),
                              Values(w.begin() + 1, w.begin() + 5));
  };
  for (const int64_t rows : {0, 1, 4}) {
    LayerHarness harness(layer, kSize, kSize, weights);
    const std::vector<float> x = RandomFloats(rows * kSize, 2);
    const std::vector<float> dy = RandomFloats(rows * kSize, 3);
    const auto loss = [&](const Values& at_x, const Values& at_w) {
      const Values y = forward(at_x, at_w);
      return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
    };
    ExpectNear(harness.Forward(x), forward(ToDouble(x), ToDouble(weights)), 1e-5);
    ExpectNear(harness.BackwardInput(dy),
               NumericalGradient([&](const Values& at) { return loss(at, ToDouble(weights)); },
                                 ToDouble(x)),
               3e-5);
    Values expected = NumericalGradient([&](const Values& at) { return loss(ToDouble(x), at); },
                                        ToDouble(weights));
    expected[0] = expected[5] = double{kUntouched};
    const std::vector<float> gradient =
        harness.BackwardWeights(false, std::vector<float>(10, kUntouched));
    ExpectNear(gradient, expected, 3e-5);
    EXPECT_TRUE(harness.BackwardInput(dy, false).empty());
    EXPECT_EQ(harness.BackwardWeights(false, std::vector<float>(10, kUntouched)), gradient);
  }
}

}  // namespace
}  // namespace sangam
