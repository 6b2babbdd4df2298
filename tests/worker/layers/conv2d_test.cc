#include "worker/layers/conv2d.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_images.h"
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

// [4, 5, 2] to [3, 3, 3] with a kernel of 2 x 3; the bias lies in front of the weight, an element
// between them.
constexpr int64_t kIn = 40;
constexpr int64_t kOut = 27;
constexpr ptrdiff_t kWeight = 4;
constexpr size_t kSegment = 4 + 36;

Conv2dLayer::Options Options(bool bias, bool relu) {
  Conv2dLayer::Options options;
  options.shape = {{4, 5, 2}, {2, 3, 2, 1}, 3};
  options.weight_offset = kWeight;
  if (bias) options.bias_offset = 0;
  options.relu = relu;
  return options;
}

TEST(Conv2dTest, ValuesAndGradientsAreTheReferences) {
  const std::vector<float> weights = RandomFloats(kSegment, 1);
  for (const bool bias : {false, true}) {
    for (const bool relu : {false, true}) {
      const auto forward = [&](const Values& x, const Values& w) {
        const Values b = bias ? Values(w.begin(), w.begin() + 3) : Values();
        Values y =
            testing::Conv2d({4, 5, 2, 2, 3, 2, 1, 3}, x, Values(w.begin() + kWeight, w.end()), b);
        return relu ? testing::Relu(y) : y;
      };
      const Conv2dLayer layer(Options(bias, relu));
      for (const int64_t rows : {0, 1, 3}) {
        LayerHarness harness(layer, kIn, kOut, weights);
        const std::vector<float> x = RandomFloats(rows * kIn, 2);
        const std::vector<float> dy = RandomFloats(rows * kOut, 3);
        const auto loss = [&](const Values& at_x, const Values& at_w) {
          const Values y = forward(at_x, at_w);
          return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
        };
        ExpectNear(harness.Forward(x), forward(ToDouble(x), ToDouble(weights)), 1e-5);
        ExpectNear(harness.BackwardInput(dy),
                   NumericalGradient([&](const Values& at) { return loss(at, ToDouble(weights)); },
                                     ToDouble(x)),
                   1e-5);
        Values expected = NumericalGradient([&](const Values& at) { return loss(ToDouble(x), at); },
                                            ToDouble(weights));
        expected[3] = double{kUntouched};
        if (!bias) std::fill_n(expected.begin(), 3, double{kUntouched});
        const std::vector<float> gradient =
            harness.BackwardWeights(false, std::vector<float>(kSegment, kUntouched));
        ExpectNear(gradient, expected, 3e-5);
        EXPECT_TRUE(harness.BackwardInput(dy, false).empty());
        const std::vector<float> added =
            harness.BackwardWeights(true, std::vector<float>(kSegment, 1.0f));
        for (size_t i = kWeight; i < kSegment; ++i) EXPECT_NEAR(added[i], 1 + gradient[i], 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace sangam
