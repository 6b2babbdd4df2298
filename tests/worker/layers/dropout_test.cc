#include "worker/layers/dropout.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/expect_near.h"
#include "tests/worker/layers/layer_harness.h"
#include "worker/layers/layer.h"
#include "worker/layers/pass_context.h"

namespace sangam {
namespace {

using testing::DropoutFactors;
using testing::ExpectNear;
using testing::LayerHarness;
using testing::RandomFloats;
using testing::Times;
using testing::ToDouble;
using testing::Values;

constexpr int64_t kSize = 70;
constexpr int64_t kRows = 12;

DropoutLayer MakeLayer(float rate) {
  DropoutLayer::Options options;
  options.rate = rate;
  options.size = kSize;
  options.layer = 4;
  return DropoutLayer(options);
}

PassContext MakeContext(uint64_t first_position) {
  PassContext context;
  context.seed = 21;
  context.step = 1000;
  context.first_position = first_position;
  return context;
}

TEST(DropoutTest, DropsByAddressInBothDirections) {
  const DropoutLayer layer = MakeLayer(0.25f);
  LayerHarness harness(layer, kSize, kSize, {});
  harness.context = MakeContext(33);
  const Values factors = DropoutFactors({21, 1000, 4, 33}, 0.25, kRows, kSize);
  const std::vector<float> x = RandomFloats(kRows * kSize, 1);
  const std::vector<float> dy = RandomFloats(kRows * kSize, 2);
  ExpectNear(harness.Forward(x), Times(ToDouble(x), factors), 1e-6);
  // The function is linear: its derivative is the same factors.
  ExpectNear(harness.BackwardInput(dy), Times(ToDouble(dy), factors), 1e-6);
}

TEST(DropoutTest, CuttingAMicroBatchElsewhereDropsTheSame) {
  const DropoutLayer layer = MakeLayer(0.5f);
  const std::vector<float> x = RandomFloats(kRows * kSize, 1);
  LayerHarness harness(layer, kSize, kSize, {});
  harness.context = MakeContext(100);
  const std::vector<float> whole = harness.Forward(x);
  const std::vector<float> whole_gradient = harness.BackwardInput(x);
  for (const int64_t cut : {1, 5, 11}) {
    const ptrdiff_t middle = cut * kSize;
    harness.context = MakeContext(100);
    std::vector<float> y = harness.Forward({x.begin(), x.begin() + middle});
    std::vector<float> dx = harness.BackwardInput({x.begin(), x.begin() + middle});
    harness.context = MakeContext(100 + static_cast<uint64_t>(cut));
    const std::vector<float> y_rest = harness.Forward({x.begin() + middle, x.end()});
    const std::vector<float> dx_rest = harness.BackwardInput({x.begin() + middle, x.end()});
    y.insert(y.end(), y_rest.begin(), y_rest.end());
    dx.insert(dx.end(), dx_rest.begin(), dx_rest.end());
    EXPECT_EQ(y, whole);
    EXPECT_EQ(dx, whole_gradient);
  }
}

TEST(DropoutTest, EvaluationIsTheIdentity) {
  const DropoutLayer layer = MakeLayer(0.5f);
  LayerHarness harness(layer, kSize, kSize, {});
  harness.context = MakeContext(0);
  harness.context.training = false;
  const std::vector<float> x = RandomFloats(kRows * kSize, 1);
  EXPECT_EQ(harness.Forward(x), x);
}

TEST(DropoutTest, RateZeroIsTheIdentityAndNeedsNoMemory) {
  const DropoutLayer layer = MakeLayer(0.0f);
  EXPECT_EQ(layer.demand().output, 0);
  LayerHarness harness(layer, kSize, kSize, {});
  const std::vector<float> x = RandomFloats(kRows * kSize, 1);
  EXPECT_EQ(harness.Forward(x), x);
  EXPECT_EQ(harness.BackwardInput(x), x);
}

TEST(DropoutTest, KeepsTheRightFraction) {
  const DropoutLayer layer = MakeLayer(0.3f);
  LayerHarness harness(layer, kSize, kSize, {});
  const std::vector<float> ones(kSize, 1.0f);
  int kept = 0;
  constexpr int kSamples = 1000;
  for (int sample = 0; sample < kSamples; ++sample) {
    harness.context = MakeContext(static_cast<uint64_t>(sample));
    for (const float y : harness.Forward(ones)) kept += y != 0 ? 1 : 0;
  }
  // 70,000 draws, standard deviation 121: within five of them.
  EXPECT_NEAR(kept, 0.7 * kSamples * kSize, 606);
}

}  // namespace
}  // namespace sangam
