#include "worker/layers/pooling.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/layers/layer_harness.h"
#include "worker/backend/backend.h"

namespace sangam {
namespace {

using testing::LayerHarness;

TEST(PoolingTest, TheFirstOfTheLargestTakesTheGradient) {
  // Two channels side by side; the second one has equals.
  const PoolingLayer layer(Pooling::kMax, {{2, 4, 2}, {2, 2, 2, 0}, 2});
  EXPECT_FALSE(layer.has_parameters());
  LayerHarness harness(layer, 16, 4, {});
  EXPECT_EQ(harness.Forward({1, 7, 3, 7, 0, 1, 0, 1,  //
                             2, 7, 4, 7, 5, 1, 9, 2}),
            (std::vector<float>{4, 7, 9, 2}));
  EXPECT_EQ(harness.BackwardInput({10, 20, 30, 40}),
            (std::vector<float>{0, 20, 0, 0, 0, 0, 0, 0,  //
                                0, 0, 10, 0, 0, 0, 30, 40}));
  EXPECT_TRUE(harness.BackwardInput({10, 20, 30, 40}, false).empty());
}

TEST(PoolingTest, MeansCountTheZerosOutside) {
  const PoolingLayer layer(Pooling::kAverage, {{2, 2, 1}, {2, 2, 2, 1}, 1});
  LayerHarness harness(layer, 4, 4, {});
  EXPECT_EQ(harness.Forward({4, 8, 12, 16}), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(harness.BackwardInput({4, 8, 12, 16}), (std::vector<float>{1, 2, 3, 4}));
}

TEST(PoolingTest, NoImagesGiveNothing) {
  for (const Pooling pooling : {Pooling::kMax, Pooling::kAverage}) {
    const PoolingLayer layer(pooling, {{2, 2, 1}, {2, 2, 2, 0}, 1});
    LayerHarness harness(layer, 4, 1, {});
    EXPECT_TRUE(harness.Forward({}).empty());
    EXPECT_TRUE(harness.BackwardInput({}).empty());
  }
}

}  // namespace
}  // namespace sangam
