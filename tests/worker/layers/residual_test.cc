#include "worker/layers/residual.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/expect_near.h"
#include "tests/worker/layers/layer_harness.h"
#include "worker/backend/backend.h"
#include "worker/layers/activation.h"
#include "worker/layers/flatten.h"
#include "worker/layers/layer.h"
#include "worker/layers/layer_chain.h"
#include "worker/layers/linear.h"

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

TEST(ResidualTest, AddsItsInputToWhatIsWithin) {
  LinearLayer::Options options;
  options.in_features = 4;
  options.out_features = 4;
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(std::make_unique<ActivationLayer>(Activation::kTanh, 4));
  layers.push_back(std::make_unique<LinearLayer>(options));
  const ResidualLayer layer(4, 4, LayerChain(std::move(layers)), LayerChain());
  EXPECT_TRUE(layer.has_parameters());
  const std::vector<float> weights = RandomFloats(16, 1);
  const auto forward = [](const Values& x, const Values& w) {
    Values y = testing::LinearForward({x.size() / 4, 4, 4}, testing::Tanh(x), w, {});
    for (size_t i = 0; i < x.size(); ++i) y[i] += x[i];
    return y;
  };
  LayerHarness harness(layer, 4, 4, weights);
  const std::vector<float> x = RandomFloats(12, 2);
  const std::vector<float> dy = RandomFloats(12, 3);
  const Values dy_values = ToDouble(dy);
  ExpectNear(harness.Forward(x), forward(ToDouble(x), ToDouble(weights)), 1e-6);
  ExpectNear(harness.BackwardInput(dy),
             NumericalGradient(
                 [&](const Values& at) { return Dot(forward(at, ToDouble(weights)), dy_values); },
                 ToDouble(x)),
             1e-6);
  const Values expected =
      NumericalGradient([&](const Values& at) { return Dot(forward(ToDouble(x), at), dy_values); },
                        ToDouble(weights));
  ExpectNear(harness.BackwardWeights(false, RandomFloats(16, 4)), expected, 3e-6);
  EXPECT_TRUE(harness.BackwardInput(dy, false).empty());
  ExpectNear(harness.BackwardWeights(false, RandomFloats(16, 4)), expected, 3e-6);
}

TEST(ResidualTest, NothingWithinDoublesTheInput) {
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(std::make_unique<FlattenLayer>());
  const ResidualLayer layer(3, 3, LayerChain(std::move(layers)), LayerChain());
  EXPECT_FALSE(layer.has_parameters());
  LayerHarness harness(layer, 3, 3, {});
  EXPECT_EQ(harness.Forward({1, -2, 3}), (std::vector<float>{2, -4, 6}));
  EXPECT_EQ(harness.BackwardInput({5, 0, 1}), (std::vector<float>{10, 0, 2}));
}

}  // namespace
}  // namespace sangam
