#include "worker/backend/cuda/layer_norm.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/layer_norm.h"

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
  std::vector<float> gain_gradient = RandomFloats(cols, 5);
  std::vector<float> bias_gradient = RandomFloats(cols, 6);
  std::vector<float> y = std::vector<float>(x.size());
  std::vector<float> mean = std::vector<float>(static_cast<size_t>(rows));
  std::vector<float> inverse = std::vector<float>(static_cast<size_t>(rows));

  Example(int64_t rows_in, int64_t cols_in) : rows(rows_in), cols(cols_in) {
    cpu_kernels::LayerNorm({x.data(), rows, cols}, gain.data(), bias.data(), kEpsilon, y.data(),
                           mean.data(), inverse.data());
  }
};

const std::vector<std::pair<int64_t, int64_t>> kShapes = {
    {1, 1}, {3, 31}, {17, 32}, {9, 33}, {8, 128}, {130, 260}, {2, 1024}, {3, 1025}, {2, 5000}};

TEST(CudaLayerNormTest, Forward) {
  for (const auto& [rows, cols] : kShapes) {
    const Example e(rows, cols);
    const std::vector<float> found = SameInAllRuns([&](int64_t offset) {
      const DeviceFloats x(e.x, offset);
      const DeviceFloats gain(e.gain, offset);
      const DeviceFloats bias(e.bias, offset);
      const DeviceFloats out(e.rows * e.cols, offset);
      const DeviceFloats mean(e.rows, offset);
      const DeviceFloats inverse(e.rows, offset);
      EXPECT_EQ(LayerNorm(nullptr, {x.data(), e.rows, e.cols}, gain.data(), bias.data(), kEpsilon,
                          out.data(), mean.data(), inverse.data()),
                cudaSuccess);
      return Joined(Joined(out.Read(), mean.Read()), inverse.Read());
    });
    ExpectNear(found, Joined(Joined(e.y, e.mean), e.inverse), 3e-6f);
  }
}

TEST(CudaLayerNormTest, Backward) {
  for (const auto& [rows, cols] : kShapes) {
    const Example e(rows, cols);
    std::vector<float> expected(e.x.size());
    cpu_kernels::LayerNormBackward({e.x.data(), rows, cols}, e.gain.data(), e.mean.data(),
                                   e.inverse.data(), e.dy.data(), expected.data());
    const std::vector<float> found = SameInAllRuns([&](int64_t offset) {
      const DeviceFloats x(e.x, offset);
      const DeviceFloats gain(e.gain, offset);
      const DeviceFloats mean(e.mean, offset);
      const DeviceFloats inverse(e.inverse, offset);
      const DeviceFloats dy(e.dy, offset);
      const DeviceFloats dx(e.rows * e.cols, offset);
      EXPECT_EQ(LayerNormBackward(nullptr, {x.data(), e.rows, e.cols}, gain.data(), mean.data(),
                                  inverse.data(), dy.data(), dx.data()),
                cudaSuccess);
      return dx.Read();
    });
    ExpectNear(found, expected, 1e-5f);
  }
}

TEST(CudaLayerNormTest, ParameterGradients) {
  for (const auto& [rows, cols] : kShapes) {
    const Example e(rows, cols);
    for (const bool accumulate : {false, true}) {
      std::vector<float> of_gain = e.gain_gradient;
      std::vector<float> of_bias = e.bias_gradient;
      cpu_kernels::LayerNormParameterGradients({e.x.data(), rows, cols}, e.mean.data(),
                                               e.inverse.data(), e.dy.data(), accumulate,
                                               of_gain.data(), of_bias.data());
      const std::vector<float> found = SameInAllRuns([&](int64_t offset) {
        const DeviceFloats x(e.x, offset);
        const DeviceFloats mean(e.mean, offset);
        const DeviceFloats inverse(e.inverse, offset);
        const DeviceFloats dy(e.dy, offset);
        const DeviceFloats gain(e.gain_gradient, offset);
        const DeviceFloats bias(e.bias_gradient, offset);
        const DeviceBytes scratch(LayerNormParameterGradientsScratchBytes(e.rows, e.cols));
        EXPECT_EQ(LayerNormParameterGradients(nullptr, {x.data(), e.rows, e.cols}, mean.data(),
                                              inverse.data(), dy.data(), accumulate, scratch.data(),
                                              gain.data(), bias.data()),
                  cudaSuccess);
        return Joined(gain.Read(), bias.Read());
      });
      ExpectNear(found, Joined(of_gain, of_bias), 1e-5f);
    }
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
