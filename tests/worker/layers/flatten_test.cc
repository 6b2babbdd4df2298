#include "worker/layers/flatten.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/layers/layer_harness.h"
#include "worker/layers/layer.h"

namespace sangam {
namespace {

TEST(FlattenTest, MovesNothing) {
  const FlattenLayer layer;
  const LayerDemand demand = layer.demand();
  EXPECT_EQ(demand.output + demand.delta + demand.input_gradient, 0);
  EXPECT_FALSE(layer.has_parameters());
  testing::LayerHarness harness(layer, 12, 12, {});
  const std::vector<float> x = testing::RandomFloats(36, 1);
  EXPECT_EQ(harness.Forward(x), x);
  const std::vector<float> dy = testing::RandomFloats(36, 2);
  EXPECT_EQ(harness.BackwardInput(dy), dy);
}

}  // namespace
}  // namespace sangam
