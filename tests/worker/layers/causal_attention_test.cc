#include "worker/layers/causal_attention.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/expect_near.h"
#include "tests/worker/layers/layer_harness.h"
#include "tests/worker/layers/sequence_ops.h"
#include "worker/layers/linear.h"

namespace sangam {
namespace {

using testing::ExpectNear;
using testing::HeadShape;
using testing::kUntouched;
using testing::LayerHarness;
using testing::NumericalGradient;
using testing::RandomFloats;
using testing::ToDouble;
using testing::Values;

constexpr int64_t kPositions = 5;
constexpr int64_t kWidth = 8;
constexpr int64_t kSize = kPositions * kWidth;
// The segment: 3 elements of others, [3 w, w], [3 w], [w, w], [w].
constexpr int64_t kQkvWeight = 3;
constexpr int64_t kQkvBias = kQkvWeight + 3 * kWidth * kWidth;
constexpr int64_t kOutWeight = kQkvBias + 3 * kWidth;
constexpr int64_t kOutBias = kOutWeight + kWidth * kWidth;
constexpr int64_t kSegment = kOutBias + kWidth;

struct Case {
  int64_t heads;
  bool rotary;
  bool bias;
};

class CausalAttentionTest : public ::testing::TestWithParam<Case> {
 protected:
  static LinearLayer::Options Linear(int64_t out, int64_t weight, int64_t bias) {
    LinearLayer::Options options;
    options.positions = kPositions;
    options.in_features = kWidth;
    options.out_features = out;
    options.weight_offset = weight;
    if (GetParam().bias) options.bias_offset = bias;
    return options;
  }

  static CausalAttentionLayer::Options Options() {
    CausalAttentionLayer::Options options;
    options.heads = GetParam().heads;
    options.rotary = GetParam().rotary;
    options.rotary_base = 20;
    options.qkv = Linear(3 * kWidth, kQkvWeight, kQkvBias);
    options.out = Linear(kWidth, kOutWeight, kOutBias);
    return options;
  }

  static Values Reference(const Values& x, const Values& segment) {
    const auto slice = [&segment](int64_t begin, int64_t end) {
      return Values(segment.begin() + begin, segment.begin() + end);
    };
    const size_t rows = x.size() / kWidth;
    const bool bias = GetParam().bias;
    const HeadShape heads = {kPositions, kWidth, static_cast<size_t>(GetParam().heads)};
    Values qkv = testing::LinearForward({rows, kWidth, 3 * kWidth}, x, slice(kQkvWeight, kQkvBias),
                                        bias ? slice(kQkvBias, kOutWeight) : Values());
    if (GetParam().rotary) qkv = testing::RotateHeads(heads, 20, std::move(qkv));
    return testing::LinearForward({rows, kWidth, kWidth}, testing::HeadsAttention(heads, qkv),
                                  slice(kOutWeight, kOutBias),
                                  bias ? slice(kOutBias, kSegment) : Values());
  }

  static double Dot(const Values& x, const Values& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  }

  const CausalAttentionLayer layer_ = CausalAttentionLayer(Options());
  const std::vector<float> segment_ = RandomFloats(kSegment, 1);
  LayerHarness harness_ = LayerHarness(layer_, kSize, kSize, segment_);
};

TEST_P(CausalAttentionTest, ValuesAndGradientsAreTheReferences) {
  for (const int64_t rows : {0, 1, 3}) {
    const std::vector<float> x = RandomFloats(rows * kSize, 2);
    const std::vector<float> dy = RandomFloats(rows * kSize, 3);
    const Values dy_values = ToDouble(dy);
    ExpectNear(harness_.Forward(x), Reference(ToDouble(x), ToDouble(segment_)), 1e-5);
    ExpectNear(
        harness_.BackwardInput(dy),
        NumericalGradient(
            [&](const Values& at) { return Dot(Reference(at, ToDouble(segment_)), dy_values); },
            ToDouble(x)),
        5e-5);
    Values expected = NumericalGradient(
        [&](const Values& at) { return Dot(Reference(ToDouble(x), at), dy_values); },
        ToDouble(segment_));
    const auto mine = [](int64_t i) {
      const bool bias = (i >= kQkvBias && i < kOutWeight) || i >= kOutBias;
      return i >= kQkvWeight && (GetParam().bias || !bias);
    };
    for (int64_t i = 0; i < kSegment; ++i) {
      if (!mine(i)) expected[static_cast<size_t>(i)] = double{kUntouched};
    }
    const std::vector<float> gradient =
        harness_.BackwardWeights(false, std::vector<float>(kSegment, kUntouched));
    ExpectNear(gradient, expected, 1e-4);

    EXPECT_TRUE(harness_.BackwardInput(dy, false).empty());
    const std::vector<float> before = RandomFloats(kSegment, 4);
    const std::vector<float> added = harness_.BackwardWeights(true, before);
    for (int64_t i = 0; i < kSegment; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_NEAR(added[at], before[at] + (mine(i) ? gradient[at] : 0), 1e-4) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CausalAttentionTest,
                         ::testing::Values(Case{1, false, true}, Case{4, false, false},
                                           Case{2, true, true}, Case{4, true, false}));

}  // namespace
}  // namespace sangam
