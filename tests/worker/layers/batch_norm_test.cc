#include "worker/layers/batch_norm.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_norms.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/expect_near.h"
#include "tests/worker/layers/layer_harness.h"

namespace sangam {
namespace {

using ::testing::Each;
using testing::ExpectNear;
using testing::kUntouched;
using testing::LayerHarness;
using testing::Moments;
using testing::RandomFloats;
using testing::ToDouble;
using testing::Values;

constexpr int64_t kWidth = 3;
constexpr int64_t kSize = 2 * kWidth;
// One element in front of the layer's parameters.
constexpr size_t kSegment = 1 + 4 * kWidth;

BatchNormLayer::Options Options(uint64_t terms_per_sample = 1) {
  BatchNormLayer::Options options;
  options.positions = 2;
  options.width = kWidth;
  options.epsilon = 0.01f;
  options.terms_per_sample = terms_per_sample;
  options.gain_offset = 1;
  options.bias_offset = 1 + kWidth;
  options.running_mean_offset = 1 + 2 * kWidth;
  options.running_variance_offset = 1 + 3 * kWidth;
  return options;
}

Values Part(const std::vector<float>& segment, size_t part) {
  const auto first = segment.begin() + static_cast<ptrdiff_t>(1 + part * kWidth);
  return {first, first + kWidth};
}

TEST(BatchNormTest, EvaluationUsesTheRunningStatistics) {
  const BatchNormLayer layer(Options());
  const std::vector<float> weights = RandomFloats(kSegment, 1, 0.5, 2);
  LayerHarness harness(layer, kSize, kSize, weights);
  harness.context.training = false;
  const std::vector<float> x = RandomFloats(4 * kSize, 2);
  const Moments moments = {Part(weights, 2), Part(weights, 3)};
  ExpectNear(harness.Forward(x),
             testing::NormalizeColumns(kWidth, ToDouble(x), moments, double{0.01f},
                                       Part(weights, 0), Part(weights, 1)),
             1e-6);
}

// Gradients are divided by the terms of the loss, and so are these sums.
TEST(BatchNormTest, StatisticsAreSumsOverTheTerms) {
  const std::vector<float> weights = RandomFloats(kSegment, 1, 0.5, 2);
  const std::vector<float> x = RandomFloats(4 * kSize, 2);
  const Moments moments = testing::ColumnMoments(kWidth, ToDouble(x));
  for (const uint64_t terms : {1, 5}) {
    const BatchNormLayer layer(Options(terms));
    LayerHarness harness(layer, kSize, kSize, weights);
    harness.Forward(x);
    harness.BackwardInput(RandomFloats(4 * kSize, 3), false);
    const std::vector<float> gradient =
        harness.BackwardWeights(false, std::vector<float>(kSegment, kUntouched));
    EXPECT_EQ(gradient[0], kUntouched);
    const std::vector<float> added =
        harness.BackwardWeights(true, std::vector<float>(kSegment, 1.0f));
    const double weight = 4 * static_cast<double>(terms);
    for (size_t j = 0; j < kWidth; ++j) {
      EXPECT_NEAR(Part(gradient, 2)[j], weight * moments.mean[j], 1e-5);
      // 8 values of each column.
      EXPECT_NEAR(Part(gradient, 3)[j], weight * moments.variance[j] * 8 / 7, 1e-5);
      for (size_t part = 0; part < 4; ++part) {
        EXPECT_NEAR(Part(added, part)[j], 1 + Part(gradient, part)[j], 1e-5);
      }
    }
  }
}

TEST(BatchNormTest, ASingleValueHasNoVariance) {
  BatchNormLayer::Options options = Options();
  options.positions = 1;
  const BatchNormLayer layer(options);
  const std::vector<float> weights = RandomFloats(kSegment, 1, 0.5, 2);
  LayerHarness harness(layer, kWidth, kWidth, weights);
  const std::vector<float> x = RandomFloats(kWidth, 2);
  ExpectNear(harness.Forward(x), Part(weights, 1), 1e-6);
  ExpectNear(harness.BackwardInput(RandomFloats(kWidth, 3)), Values(kWidth, 0.0), 1e-6);
  const std::vector<float> gradient =
      harness.BackwardWeights(false, std::vector<float>(kSegment, kUntouched));
  for (size_t j = 0; j < kWidth; ++j) {
    EXPECT_EQ(Part(gradient, 2)[j], x[j]);
    EXPECT_EQ(Part(gradient, 3)[j], 0);
  }
}

TEST(BatchNormTest, NoSamplesAddNothing) {
  const BatchNormLayer layer(Options());
  LayerHarness harness(layer, kSize, kSize, RandomFloats(kSegment, 1, 0.5, 2));
  EXPECT_TRUE(harness.Forward({}).empty());
  EXPECT_TRUE(harness.BackwardInput({}).empty());
  const std::vector<float> before = RandomFloats(kSegment, 4);
  EXPECT_EQ(harness.BackwardWeights(true, before), before);
  std::vector<float> overwritten = harness.BackwardWeights(false, before);
  EXPECT_EQ(overwritten[0], before[0]);
  overwritten.erase(overwritten.begin());
  EXPECT_THAT(overwritten, Each(0.0f));
}

}  // namespace
}  // namespace sangam
