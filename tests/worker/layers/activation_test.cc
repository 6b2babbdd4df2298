#include "worker/layers/activation.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/expect_near.h"
#include "tests/worker/layers/layer_harness.h"
#include "worker/backend/backend.h"

namespace sangam {
namespace {

using testing::ExpectNear;
using testing::LayerHarness;
using testing::NumericalGradient;
using testing::RandomFloats;
using testing::ToDouble;
using testing::Values;

struct Case {
  Activation activation;
  Values (*reference)(const Values&);
};

class ActivationTest : public ::testing::TestWithParam<Case> {};

TEST_P(ActivationTest, ForwardAndGradientAreTheReferences) {
  const ActivationLayer layer(GetParam().activation, 11);
  EXPECT_FALSE(layer.has_parameters());
  for (const int64_t rows : {0, 1, 5}) {
    LayerHarness harness(layer, 11, 11, {});
    const std::vector<float> x = RandomFloats(rows * 11, 1, -4, 4);
    const std::vector<float> dy = RandomFloats(rows * 11, 2);
    ExpectNear(harness.Forward(x), GetParam().reference(ToDouble(x)), 1e-6);
    const auto dot = [&](const Values& at) {
      const Values y = GetParam().reference(at);
      return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
    };
    ExpectNear(harness.BackwardInput(dy), NumericalGradient(dot, ToDouble(x)), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ActivationTest,
                         ::testing::Values(Case{Activation::kRelu, &testing::Relu},
                                           Case{Activation::kGelu, &testing::Gelu},
                                           Case{Activation::kTanh, &testing::Tanh}));

}  // namespace
}  // namespace sangam
