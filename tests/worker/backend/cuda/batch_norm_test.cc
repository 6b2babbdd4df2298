#include "worker/backend/cuda/batch_norm.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/batch_norm.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::RandomFloats;

constexpr float kEpsilon = 0.01f;

struct Example {
  int64_t rows, cols;
  std::vector<float> x = RandomFloats(rows * cols, 1, -1, 5);
  std::vector<float> dy = RandomFloats(rows * cols, 2);
  std::vector<float> gain = RandomFloats(cols, 3);
  std::vector<float> bias = RandomFloats(cols, 4);
  std::vector<float> mean = std::vector<float>(static_cast<size_t>(cols));
  std::vector<float> variance = std::vector<float>(static_cast<size_t>(cols));
  std::vector<float> sums = std::vector<float>(2 * static_cast<size_t>(cols));

  Example(int64_t rows_in, int64_t cols_in) : rows(rows_in), cols(cols_in) {
    cpu_kernels::ColumnMoments({x.data(), rows, cols}, mean.data(), variance.data());
    cpu_kernels::BatchNormSums({x.data(), rows, cols}, mean.data(), variance.data(), kEpsilon,
                               dy.data(), sums.data());
  }
};

const std::vector<std::pair<int64_t, int64_t>> kShapes = {
    {1, 1}, {31, 3}, {32, 32}, {33, 33}, {130, 132}, {1000, 5}, {70, 260}, {20000, 2}, {3, 1000}};

TEST(CudaBatchNormTest, ColumnMoments) {
  for (const auto& [rows, cols] : kShapes) {
    const Example e(rows, cols);
    const std::vector<float> found = SameInAllRuns([&](int64_t offset) {
      const DeviceFloats x(e.x, offset);
      const DeviceFloats mean(e.cols, offset);
      const DeviceFloats variance(e.cols, offset);
      const DeviceBytes scratch(ColumnMomentsScratchBytes(e.rows, e.cols));
      EXPECT_EQ(ColumnMoments(nullptr, {x.data(), e.rows, e.cols}, scratch.data(), mean.data(),
                              variance.data()),
                cudaSuccess);
      return Joined(mean.Read(), variance.Read());
    });
    ExpectNear(found, Joined(e.mean, e.variance), 1e-6f);
  }
}

TEST(CudaBatchNormTest, MomentsFarFromZero) {
  std::vector<float> x = RandomFloats(10000, 1);
  for (float& value : x) value += 4000;
  std::vector<float> expected(2);
  cpu_kernels::ColumnMoments({x.data(), 10000, 1}, &expected[0], &expected[1]);
  const DeviceFloats in(x, 0);
  const DeviceFloats out(2, 0);
  const DeviceBytes scratch(ColumnMomentsScratchBytes(10000, 1));
  EXPECT_EQ(
      ColumnMoments(nullptr, {in.data(), 10000, 1}, scratch.data(), out.data(), out.data() + 1),
      cudaSuccess);
  ExpectNear(out.Read(), expected, 1e-6f);
}

TEST(CudaBatchNormTest, NormalizeColumns) {
  for (const auto& [rows, cols] : kShapes) {
    const Example e(rows, cols);
    std::vector<float> expected(e.x.size());
    cpu_kernels::NormalizeColumns({e.x.data(), rows, cols}, e.mean.data(), e.variance.data(),
                                  kEpsilon, e.gain.data(), e.bias.data(), expected.data());
    const std::vector<float> found = SameInAllRuns([&](int64_t offset) {
      const DeviceFloats x(e.x, offset);
      const DeviceFloats mean(e.mean, offset);
      const DeviceFloats variance(e.variance, offset);
      const DeviceFloats gain(e.gain, offset);
      const DeviceFloats bias(e.bias, offset);
      EXPECT_EQ(NormalizeColumns(nullptr, {x.data(), e.rows, e.cols}, mean.data(), variance.data(),
                                 kEpsilon, gain.data(), bias.data(), x.data()),
                cudaSuccess);
      return x.Read();
    });
    ExpectNear(found, expected, 2e-6f);
  }
}

TEST(CudaBatchNormTest, NormalizesMoreRowsThanThreads) {
  const Example e(4096 * 8 * 5, 1);
  std::vector<float> expected(e.x.size());
  cpu_kernels::NormalizeColumns({e.x.data(), e.rows, 1}, e.mean.data(), e.variance.data(), kEpsilon,
                                e.gain.data(), e.bias.data(), expected.data());
  const DeviceFloats x(e.x, 0);
  const DeviceFloats mean(e.mean, 0);
  const DeviceFloats variance(e.variance, 0);
  const DeviceFloats gain(e.gain, 0);
  const DeviceFloats bias(e.bias, 0);
  EXPECT_EQ(NormalizeColumns(nullptr, {x.data(), e.rows, 1}, mean.data(), variance.data(), kEpsilon,
                             gain.data(), bias.data(), x.data()),
            cudaSuccess);
  ExpectNear(x.Read(), expected, 2e-6f);
}

TEST(CudaBatchNormTest, Sums) {
  for (const auto& [rows, cols] : kShapes) {
    const Example e(rows, cols);
    const std::vector<float> found = SameInAllRuns([&](int64_t offset) {
      const DeviceFloats x(e.x, offset);
      const DeviceFloats mean(e.mean, offset);
      const DeviceFloats variance(e.variance, offset);
      const DeviceFloats dy(e.dy, offset);
      const DeviceFloats sums(2 * e.cols, offset);
      const DeviceBytes scratch(BatchNormSumsScratchBytes(e.rows, e.cols));
      EXPECT_EQ(BatchNormSums(nullptr, {x.data(), e.rows, e.cols}, mean.data(), variance.data(),
                              kEpsilon, dy.data(), scratch.data(), sums.data()),
                cudaSuccess);
      return sums.Read();
    });
    ExpectNear(found, e.sums, 1e-6f);
  }
}

TEST(CudaBatchNormTest, Backward) {
  for (const auto& [rows, cols] : kShapes) {
    const Example e(rows, cols);
    std::vector<float> expected(e.x.size());
    cpu_kernels::BatchNormBackward({e.x.data(), rows, cols}, e.mean.data(), e.variance.data(),
                                   kEpsilon, e.gain.data(), e.sums.data(), e.dy.data(),
                                   expected.data());
    const std::vector<float> found = SameInAllRuns([&](int64_t offset) {
      const DeviceFloats x(e.x, offset);
      const DeviceFloats mean(e.mean, offset);
      const DeviceFloats variance(e.variance, offset);
      const DeviceFloats gain(e.gain, offset);
      const DeviceFloats sums(e.sums, offset);
      const DeviceFloats dy(e.dy, offset);
      EXPECT_EQ(BatchNormBackward(nullptr, {x.data(), e.rows, e.cols}, mean.data(), variance.data(),
                                  kEpsilon, gain.data(), sums.data(), dy.data(), dy.data()),
                cudaSuccess);
      return dy.Read();
    });
    ExpectNear(found, expected, 2e-6f);
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
