#include "worker/backend/cpu/conv2d.h"

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/gemm.h"
#include "worker/backend/views.h"

// What the class computes is tested by the conformance test; here: that nobody else's work shows.
namespace sangam {
namespace {

using testing::RandomFloats;

// Several tiles, one of them across two images.
const WindowShape kShape = {{19, 19, 12}, {3, 3, 1, 1}, 20};
constexpr int64_t kImages = 5;

struct Results {
  std::vector<float> y, dx, dw;
  bool operator==(const Results& other) const {
    return y == other.y && dx == other.dx && dw == other.dw;
  }
};

Results Compute() {
  const std::vector<float> x = RandomFloats(kImages * kShape.in.elements(), 1);
  const std::vector<float> dy = RandomFloats(kImages * kShape.out().elements(), 2);
  const std::vector<float> weight = RandomFloats(20 * 108, 3);
  Results results = {std::vector<float>(dy.size()), std::vector<float>(x.size()),
                     std::vector<float>(weight.size(), 1.0f)};
  const ConstMatrix in(x.data(), kImages, kShape.in.elements());
  const ConstMatrix weights(weight.data(), 20, 108);
  const ConstMatrix gradient(dy.data(), kImages, kShape.out().elements());
  CpuGemm gemm;
  CpuConv2d conv;
  EXPECT_TRUE(
      conv.Forward(&gemm, kShape, in, weights, {results.y.data(), gradient.rows, gradient.cols})
          .ok());
  EXPECT_TRUE(
      conv.BackwardInput(&gemm, kShape, weights, gradient, {results.dx.data(), in.rows, in.cols})
          .ok());
  EXPECT_TRUE(
      conv.BackwardWeight(&gemm, kShape, in, gradient, true, {results.dw.data(), 20, 108}).ok());
  return results;
}

TEST(CpuConv2dTest, BitsDoNotDependOnOtherLanes) {
  const Results alone = Compute();
  std::vector<Results> together(4);
  std::vector<std::thread> lanes;
  for (Results& results : together) {
    lanes.emplace_back([&results] {
      for (int i = 0; i < 5; ++i) results = Compute();
    });
  }
  for (std::thread& lane : lanes) lane.join();
  for (const Results& results : together) EXPECT_TRUE(results == alone);
}

// A gradient that goes on is the one that was, and the sum of the images one after the other.
TEST(CpuConv2dTest, WeightGradientGoesOnWhereItWas) {
  const WindowShape shape = {{2, 2, 1}, {2, 2, 1, 0}, 1};
  const std::vector<float> x = {1, 2, 3, 4, 10, 20, 30, 40};
  const std::vector<float> dy = {1, 0.5f};
  std::vector<float> dw = {100, 200, 300, 400};
  CpuGemm gemm;
  CpuConv2d conv;
  ASSERT_TRUE(conv.BackwardWeight(&gemm, shape, {x.data(), 2, 4}, {dy.data(), 2, 1}, true,
                                  {dw.data(), 1, 4})
                  .ok());
  EXPECT_EQ(dw, (std::vector<float>{106, 212, 318, 424}));
  ASSERT_TRUE(conv.BackwardWeight(&gemm, shape, {x.data(), 2, 4}, {dy.data(), 2, 1}, false,
                                  {dw.data(), 1, 4})
                  .ok());
  EXPECT_EQ(dw, (std::vector<float>{6, 12, 18, 24}));
}

}  // namespace
}  // namespace sangam
