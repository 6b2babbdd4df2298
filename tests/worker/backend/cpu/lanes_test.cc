#include "worker/backend/cpu/lanes.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"

namespace sangam::cpu_kernels {
namespace {

TEST(LanesTest, ElementsGoToTheirLaneInOrder) {
  for (const int64_t size : {0, 1, 15, 16, 17, 203}) {
    const std::vector<float> x = testing::RandomFloats(size, 1);
    float lanes[kLanes] = {};
    for (size_t j = 0; j < x.size(); ++j) lanes[j % kLanes] += x[j];
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    EXPECT_EQ(SumInLanes(size, [&](int64_t j) { return x[static_cast<size_t>(j)]; }), lanes[0]);
  }
}

}  // namespace
}  // namespace sangam::cpu_kernels
