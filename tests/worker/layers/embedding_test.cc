#include "worker/layers/embedding.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/expect_near.h"
#include "tests/worker/layers/layer_harness.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {
namespace {

using testing::ExpectNear;
using testing::kUntouched;
using testing::LayerHarness;
using testing::RandomFloats;
using testing::Values;

// 5 tokens of width 3, with 2 elements in front and 1 behind; samples of 4 positions.
constexpr int64_t kSegment = 2 + 5 * 3 + 1;

EmbeddingLayer MakeLayer() {
  EmbeddingLayer::Options options;
  options.positions = 4;
  options.vocabulary = 5;
  options.width = 3;
  options.table_offset = 2;
  return EmbeddingLayer(options);
}

TEST(EmbeddingTest, LooksRowsUpAndAddsTheirGradients) {
  const EmbeddingLayer layer = MakeLayer();
  const std::vector<float> weights = RandomFloats(kSegment, 1);
  LayerHarness harness(layer, 4, 12, weights);
  const std::vector<float> tokens = {3, 0, 3, 3, 1, 0, 4, 1};
  const std::vector<float> y = harness.Forward(tokens);
  ASSERT_EQ(y.size(), 24u);
  const std::vector<float> dy = RandomFloats(24, 2);
  EXPECT_TRUE(harness.BackwardInput(dy, false).empty());
  // Token 2 does not occur; what is no part of the table stays as it was.
  Values expected(kSegment, 0.0);
  for (const size_t other : {0, 1, 17}) expected[other] = double{kUntouched};
  for (size_t r = 0; r < tokens.size(); ++r) {
    for (size_t j = 0; j < 3; ++j) {
      const size_t at = 2 + static_cast<size_t>(tokens[r]) * 3 + j;
      EXPECT_EQ(y[r * 3 + j], weights[at]) << r;
      expected[at] += double{dy[r * 3 + j]};
    }
  }
  ExpectNear(harness.BackwardWeights(false, std::vector<float>(kSegment, kUntouched)), expected,
             1e-6);
  const std::vector<float> before = RandomFloats(kSegment, 3);
  const std::vector<float> added = harness.BackwardWeights(true, before);
  for (size_t i = 2; i < 17; ++i) EXPECT_NEAR(added[i], before[i] + expected[i], 1e-6) << i;
}

TEST(EmbeddingTest, TokensHaveNoGradient) {
  LayerState state;
  EXPECT_EQ(MakeLayer().BackwardInput(LayerCall(), ConstMatrix(), true, &state).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sangam
