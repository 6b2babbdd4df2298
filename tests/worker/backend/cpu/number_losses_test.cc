#include "worker/backend/cpu/number_losses.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"

// What the functions compute is tested by the conformance test; here: the order of the sum.
namespace sangam::cpu_kernels {
namespace {

using ::sangam::testing::RandomFloats;

TEST(CpuNumberLossesTest, SquaresAreSummedRowAfterRowInDouble) {
  constexpr int64_t kRows = 7;
  constexpr int64_t kCols = 33;
  const std::vector<float> x = RandomFloats(kRows * kCols, 1, -8, 8);
  const std::vector<float> targets = RandomFloats(kRows * kCols, 2, -8, 8);
  double loss = 0;
  std::vector<float> expected;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = double{x[i]} - double{targets[i]};
    loss += error * error;
    expected.push_back(2.0f * (x[i] - targets[i]));
  }
  std::vector<float> gradient(x.size());
  EXPECT_EQ(SquaredError({x.data(), kRows, kCols}, targets.data(), gradient.data()), loss);
  EXPECT_EQ(gradient, expected);
}

}  // namespace
}  // namespace sangam::cpu_kernels
