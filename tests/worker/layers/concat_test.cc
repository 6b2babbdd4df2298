#include "worker/layers/concat.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/layers/layer_harness.h"
#include "worker/backend/backend.h"
#include "worker/layers/activation.h"
#include "worker/layers/layer.h"
#include "worker/layers/layer_chain.h"
#include "worker/layers/linear.h"

namespace sangam {
namespace {

using testing::LayerHarness;

LayerChain Chain(std::unique_ptr<Layer> layer) {
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(std::move(layer));
  return LayerChain(std::move(layers));
}

// 2 positions of width 2: relu, the input itself, and a linear layer to width 1.
ConcatLayer ThreeBranches() {
  LinearLayer::Options linear;
  linear.positions = 2;
  linear.in_features = 2;
  linear.out_features = 1;
  std::vector<ConcatLayer::Branch> branches(3);
  branches[0] = {Chain(std::make_unique<ActivationLayer>(Activation::kRelu, 4)), 2};
  branches[1].width = 2;
  branches[2] = {Chain(std::make_unique<LinearLayer>(linear)), 1};
  return ConcatLayer(4, 2, std::move(branches));
}

TEST(ConcatTest, BranchesSideBySideAndTheirGradientsSummed) {
  const ConcatLayer layer = ThreeBranches();
  EXPECT_TRUE(layer.has_parameters());
  LayerHarness harness(layer, 4, 10, {2, 3});
  EXPECT_EQ(harness.Forward({1, -2, -3, 4, 5, 6, 7, 8}),
            (std::vector<float>{1, 0, 1, -2, -4, 0, 4, -3, 4, 6,  //
                                5, 6, 5, 6,  28, 7, 8, 7,  8, 38}));
  const std::vector<float> dy = {1, 2, 10, 20, 100, 3, 4, 30, 40, 200,  //
                                 5, 6, 50, 60, 0,   7, 8, 70, 80, 1};
  EXPECT_EQ(harness.BackwardInput(dy),
            (std::vector<float>{1 + 10 + 200, 20 + 300, 30 + 400, 4 + 40 + 600,  //
                                55, 66, 77 + 2, 88 + 3}));
  // 100 (1, -2) + 200 (-3, 4) + 1 (7, 8).
  EXPECT_EQ(harness.BackwardWeights(false, {9, 9}), (std::vector<float>{-493, 608}));
  EXPECT_TRUE(harness.BackwardInput(dy, false).empty());
  EXPECT_EQ(harness.BackwardWeights(true, {1, 1}), (std::vector<float>{-492, 609}));
}

TEST(ConcatTest, NoSamplesGiveNothing) {
  const ConcatLayer layer = ThreeBranches();
  LayerHarness harness(layer, 4, 10, {2, 3});
  EXPECT_TRUE(harness.Forward({}).empty());
  EXPECT_TRUE(harness.BackwardInput({}).empty());
  EXPECT_EQ(harness.BackwardWeights(false, {9, 9}), (std::vector<float>{0, 0}));
}

TEST(ConcatTest, WithoutParameters) {
  std::vector<ConcatLayer::Branch> branches(2);
  branches[0].width = branches[1].width = 1;
  const ConcatLayer layer(1, 1, std::move(branches));
  EXPECT_FALSE(layer.has_parameters());
  LayerHarness harness(layer, 1, 2, {});
  EXPECT_EQ(harness.Forward({5}), (std::vector<float>{5, 5}));
  EXPECT_EQ(harness.BackwardInput({2, 3}), (std::vector<float>{5}));
}

}  // namespace
}  // namespace sangam
