#include "worker/layers/position_embedding.h"

#include <cstddef>
#include <cstdint>
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
using testing::RandomFloats;
using testing::Values;

TEST(PositionEmbeddingTest, AddsARowToEachPosition) {
  // 3 positions of width 5, with 2 elements in front and 1 behind; 4 samples.
  constexpr size_t kSize = 15;
  constexpr size_t kSegment = 2 + kSize + 1;
  PositionEmbeddingLayer::Options options;
  options.positions = 3;
  options.width = 5;
  options.table_offset = 2;
  const PositionEmbeddingLayer layer(options);
  const std::vector<float> weights = RandomFloats(kSegment, 1);
  LayerHarness harness(layer, kSize, kSize, weights);
  const std::vector<float> x = RandomFloats(4 * kSize, 2);
  const std::vector<float> y = harness.Forward(x);
  const std::vector<float> dy = RandomFloats(4 * kSize, 3);
  EXPECT_EQ(harness.BackwardInput(dy), dy);
  Values expected(kSegment, 0.0);
  for (const size_t other : {size_t{0}, size_t{1}, kSegment - 1}) {
    expected[other] = double{kUntouched};
  }
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(y[i], x[i] + weights[2 + i % kSize]) << i;
    expected[2 + i % kSize] += double{dy[i]};
  }
  ExpectNear(harness.BackwardWeights(false, std::vector<float>(kSegment, kUntouched)), expected,
             1e-6);
  EXPECT_TRUE(harness.BackwardInput(dy, false).empty());
  const std::vector<float> before = RandomFloats(kSegment, 4);
  const std::vector<float> added = harness.BackwardWeights(true, before);
  for (size_t i = 2; i < 2 + kSize; ++i) EXPECT_NEAR(added[i], before[i] + expected[i], 1e-6) << i;
}

}  // namespace
}  // namespace sangam
