#include "worker/backend/cuda/rms_norm.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/rms_norm.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::RandomFloats;

constexpr float kEpsilon = 0.01f;

struct Example {
  int64_t rows, cols;
  std::vector<float> x = RandomFloats(rows * cols, 1, -3, 3);
  std::vector<float> dy = RandomFloats(rows * cols, 2);
  std::vector<float> gain = RandomFloats(cols, 3);
  std::vector<float> gain_gradient = RandomFloats(cols, 4);
  std::vector<float> y = std::vector<float>(x.size());
  std::vector<float> inverse = std::vector<float>(static_cast<size_t>(rows));

  Example(int64_t rows_in, int64_t cols_in) : rows(rows_in), cols(cols_in) {
    cpu_kernels::RmsNorm({x.data(), rows, cols}, gain.data(), kEpsilon, y.data(), inverse.data());
  }
};

const std::vector<std::pair<int64_t, int64_t>> kShapes = {
    {1, 1}, {3, 31}, {17, 32}, {9, 33}, {8, 128}, {130, 260}, {2, 1024}, {3, 1025}, {2, 5000}};

TEST(CudaRmsNormTest, Forward) {
  for (const auto& [rows, cols] : kShapes) {
    const Example e(rows, cols);
    const std::vector<float> found = SameInAllRuns([&](int64_t offset) {
      const DeviceFloats x(e.x, offset);
      const DeviceFloats gain(e.gain, offset);
      const DeviceFloats out(e.rows * e.cols, offset);
      const DeviceFloats inverse(e.rows, offset);
      EXPECT_EQ(RmsNorm(nullptr, {x.data(), e.rows, e.cols}, gain.data(), kEpsilon, out.data(),
                        inverse.data()),
                cudaSuccess);
      return Joined(out.Read(), inverse.Read());
    });
    ExpectNear(found, Joined(e.y, e.inverse), 2e-6f);
  }
}

TEST(CudaRmsNormTest, TakesMoreRowsThanWarps) {
  const Example e(4096 * 8 + 77, 3);
  const DeviceFloats x(e.x, 0);
  const DeviceFloats gain(e.gain, 0);
  const DeviceFloats inverse(e.rows, 0);
  EXPECT_EQ(
      RmsNorm(nullptr, {x.data(), e.rows, e.cols}, gain.data(), kEpsilon, x.data(), inverse.data()),
      cudaSuccess);
  ExpectNear(inverse.Read(), e.inverse, 2e-6f);
}

TEST(CudaRmsNormTest, Backward) {
  for (const auto& [rows, cols] : kShapes) {
    const Example e(rows, cols);
    std::vector<float> expected(e.x.size());
    cpu_kernels::RmsNormBackward({e.x.data(), rows, cols}, e.gain.data(), e.inverse.data(),
                                 e.dy.data(), expected.data());
    const std::vector<float> found = SameInAllRuns([&](int64_t offset) {
      const DeviceFloats x(e.x, offset);
      const DeviceFloats gain(e.gain, offset);
      const DeviceFloats inverse(e.inverse, offset);
      const DeviceFloats dy(e.dy, offset);
      const DeviceFloats dx(e.rows * e.cols, offset);
      EXPECT_EQ(RmsNormBackward(nullptr, {x.data(), e.rows, e.cols}, gain.data(), inverse.data(),
                                dy.data(), dx.data()),
                cudaSuccess);
      return dx.Read();
    });
    ExpectNear(found, expected, 1e-5f);
  }
}

TEST(CudaRmsNormTest, GainGradient) {
  for (const auto& [rows, cols] : kShapes) {
    const Example e(rows, cols);
    for (const bool accumulate : {false, true}) {
      std::vector<float> expected = e.gain_gradient;
      cpu_kernels::RmsNormGainGradient({e.x.data(), rows, cols}, e.inverse.data(), e.dy.data(),
                                       accumulate, expected.data());
      const std::vector<float> found = SameInAllRuns([&](int64_t offset) {
        const DeviceFloats x(e.x, offset);
        const DeviceFloats inverse(e.inverse, offset);
        const DeviceFloats dy(e.dy, offset);
        const DeviceFloats gradient(e.gain_gradient, offset);
        const DeviceBytes scratch(RmsNormGainGradientScratchBytes(e.rows, e.cols));
        EXPECT_EQ(RmsNormGainGradient(nullptr, {x.data(), e.rows, e.cols}, inverse.data(),
                                      dy.data(), accumulate, scratch.data(), gradient.data()),
                  cudaSuccess);
        return gradient.Read();
      });
      ExpectNear(found, expected, 1e-5f);
    }
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
