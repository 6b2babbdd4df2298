#include "worker/backend/cpu/pooling.h"

#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"

// What the functions compute is tested by the conformance test; here: the order of sums.
namespace sangam::cpu_kernels {
namespace {

constexpr float kBig = 0x1p24f;  // and one more is rounded to the same

TEST(CpuPoolingTest, WindowsAreSummedFromTheFirstPixel) {
  const WindowShape row = {{1, 4, 1}, {1, 3, 1, 0}, 1};
  const std::vector<float> x = {kBig, 1, -kBig, 1};
  std::vector<float> y(2);
  AveragePool2d(row, {x.data(), 1, 4}, y.data());
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], ((1 - kBig) + 1) / 3);
}

TEST(CpuPoolingTest, GradientsAreSummedFromTheFirstWindow) {
  // The middle one of five pixels is in three windows.
  const WindowShape row = {{1, 5, 1}, {1, 3, 1, 0}, 1};
  const std::vector<float> dy = {3 * kBig, 3, -3 * kBig};
  std::vector<float> dx(5);
  AveragePool2dBackward(row, {dy.data(), 1, 3}, dx.data());
  EXPECT_EQ(dx, (std::vector<float>{kBig, kBig, 0, 1 - kBig, -kBig}));
}

}  // namespace
}  // namespace sangam::cpu_kernels
