#include "worker/backend/cpu/batch_norm.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/views.h"

// What the functions compute is tested by the conformance test; here: the order of their sums, and
// so every bit.
namespace sangam::cpu_kernels {
namespace {

using ::sangam::testing::RandomFloats;

constexpr int64_t kRows = 37;
constexpr int64_t kCols = 133;

struct Example {
  std::vector<float> x = RandomFloats(kRows * kCols, 1, -3, 3);
  std::vector<float> dy = RandomFloats(kRows * kCols, 2);
  std::vector<float> mean = std::vector<float>(kCols);
  std::vector<float> variance = std::vector<float>(kCols);
  ConstMatrix in{x.data(), kRows, kCols};
};

TEST(CpuBatchNormTest, MomentsTakeRowsInOrderInDouble) {
  Example e;
  ColumnMoments(e.in, e.mean.data(), e.variance.data());
  for (size_t j = 0; j < kCols; ++j) {
    double sum = 0;
    for (size_t i = j; i < e.x.size(); i += kCols) sum += double{e.x[i]};
    const double mean = sum / kRows;
    double squares = 0;
    for (size_t i = j; i < e.x.size(); i += kCols) {
      const double from_mean = double{e.x[i]} - mean;
      squares += from_mean * from_mean;
    }
    EXPECT_EQ(e.mean[j], static_cast<float>(mean)) << j;
    EXPECT_EQ(e.variance[j], static_cast<float>(squares / kRows)) << j;
  }
}

TEST(CpuBatchNormTest, SumsTakeRowsInOrderInDouble) {
  Example e;
  ColumnMoments(e.in, e.mean.data(), e.variance.data());
  std::vector<float> sums(2 * kCols);
  BatchNormSums(e.in, e.mean.data(), e.variance.data(), 1e-5f, e.dy.data(), sums.data());
  for (size_t j = 0; j < kCols; ++j) {
    double along_x = 0;
    double all = 0;
    for (size_t i = j; i < e.x.size(); i += kCols) {
      along_x += double{e.dy[i] * (e.x[i] - e.mean[j])};
      all += double{e.dy[i]};
    }
    const float inverse = 1.0f / std::sqrt(e.variance[j] + 1e-5f);
    EXPECT_EQ(sums[j], static_cast<float>(along_x * double{inverse})) << j;
    EXPECT_EQ(sums[kCols + j], static_cast<float>(all)) << j;
  }
}

}  // namespace
}  // namespace sangam::cpu_kernels
