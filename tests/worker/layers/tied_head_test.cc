#include "worker/layers/tied_head.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/expect_near.h"
#include "tests/worker/layers/layer_harness.h"

namespace sangam {
namespace {

using testing::ExpectNear;
using testing::LayerHarness;
using testing::NumericalGradient;
using testing::RandomFloats;
using testing::ToDouble;
using testing::Values;

double Dot(const Values& x, const Values& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

TEST(TiedHeadTest, ValuesAndGradientsAreTheReferences) {
  // Samples of 2 positions of width 3, a vocabulary of 4; 5 elements before the table, 6 behind.
  constexpr size_t kSegment = 5 + 12 + 6;
  TiedHeadLayer::Options options;
  options.positions = 2;
  options.width = 3;
  options.vocabulary = 4;
  options.table_offset = 5;
  options.segment_size = kSegment;
  const TiedHeadLayer layer(options);
  const std::vector<float> tied = RandomFloats(kSegment, 1);
  const auto forward = [](const Values& x, const Values& segment) {
    return testing::LinearForward({x.size() / 3, 3, 4}, x,
                                  Values(segment.begin() + 5, segment.begin() + 17), {});
  };
  for (const int64_t rows : {0, 1, 4}) {
    LayerHarness harness(layer, 6, 8, tied);
    const std::vector<float> x = RandomFloats(rows * 6, 2);
    const std::vector<float> dy = RandomFloats(rows * 8, 3);
    const Values dy_values = ToDouble(dy);
    ExpectNear(harness.Forward(x), forward(ToDouble(x), ToDouble(tied)), 1e-6);
    ExpectNear(harness.BackwardInput(dy),
               NumericalGradient(
                   [&](const Values& at) { return Dot(forward(at, ToDouble(tied)), dy_values); },
                   ToDouble(x)),
               1e-6);
    // What is no part of the table has the gradient 0.
    const std::vector<float> before = RandomFloats(kSegment, 4, 1, 2);
    const std::vector<float> gradient = harness.BackwardWeights(false, before);
    ExpectNear(gradient,
               NumericalGradient(
                   [&](const Values& at) { return Dot(forward(ToDouble(x), at), dy_values); },
                   ToDouble(tied)),
               5e-6);
    const std::vector<float> added = harness.BackwardWeights(true, before);
    for (size_t i = 0; i < kSegment; ++i) {
      EXPECT_NEAR(added[i], before[i] + gradient[i], 5e-6) << i;
    }
  }
}

}  // namespace
}  // namespace sangam
