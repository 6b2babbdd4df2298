#include "worker/backend/cuda/activations.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/elementwise.h"
#include "worker/backend/shapes.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::RandomFloats;

constexpr Activation kActivations[] = {Activation::kRelu, Activation::kGelu, Activation::kTanh,
                                       Activation::kSigmoid};

TEST(CudaActivationsTest, AgreeWithTheCpu) {
  for (const Activation activation : kActivations) {
    for (const int64_t size : {1, 31, 32, 33, 1027}) {
      const std::vector<float> in = RandomFloats(size, 1, -6, 6);
      const std::vector<float> dy = RandomFloats(size, 2);
      std::vector<float> expected(in.size());
      cpu_kernels::Activate(activation, {in.data(), 1, size}, expected.data());
      const std::vector<float> out = SameInAllRuns([&](int64_t offset) {
        const DeviceFloats x(in, offset);
        EXPECT_EQ(Activate(nullptr, activation, {x.data(), 1, size}, x.data()), cudaSuccess);
        return x.Read();
      });
      ExpectNear(out, expected, 1e-6f);

      const std::vector<float>& kept = activation == Activation::kGelu ? in : out;
      cpu_kernels::ActivateBackward(activation, kept.data(), {dy.data(), 1, size}, expected.data());
      ExpectNear(SameInAllRuns([&](int64_t offset) {
                   const DeviceFloats x(kept, offset);
                   const DeviceFloats d(dy, offset);
                   EXPECT_EQ(ActivateBackward(nullptr, activation, x.data(), {d.data(), 1, size},
                                              d.data()),
                             cudaSuccess);
                   return d.Read();
                 }),
                 expected, 1e-6f);
    }
  }
}

TEST(CudaActivationsTest, TakeExtremesAsTheCpuDoes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> in = {0,     -0.0f,  1e-30f,    -1e-30f,    80,  -80,
                                 3e38f, -3e38f, kInfinity, -kInfinity, kNan};
  const auto size = static_cast<int64_t>(in.size());
  const std::vector<float> dy(in.size(), 1.0f);
  for (const Activation activation : kActivations) {
    std::vector<float> expected(in.size());
    cpu_kernels::Activate(activation, {in.data(), 1, size}, expected.data());
    const DeviceFloats x(in, 0);
    const DeviceFloats y(size, 0);
    EXPECT_EQ(Activate(nullptr, activation, {x.data(), 1, size}, y.data()), cudaSuccess);
    const std::vector<float> out = y.Read();
    ExpectNear(out, expected, 1e-6f);

    const bool keeps_input = activation == Activation::kGelu;
    cpu_kernels::ActivateBackward(activation, keeps_input ? in.data() : out.data(),
                                  {dy.data(), 1, size}, expected.data());
    const DeviceFloats d(dy, 0);
    EXPECT_EQ(ActivateBackward(nullptr, activation, keeps_input ? x.data() : y.data(),
                               {d.data(), 1, size}, d.data()),
              cudaSuccess);
    ExpectNear(d.Read(), expected, 1e-6f);
  }
}

TEST(CudaActivationsTest, KeepSmallValuesOfGelu) {
  const std::vector<float> in = RandomFloats(1000, 1, -9, -4);
  const DeviceFloats x(in, 0);
  EXPECT_EQ(Activate(nullptr, Activation::kGelu, {x.data(), 1, 1000}, x.data()), cudaSuccess);
  std::vector<float> expected(in.size());
  cpu_kernels::Activate(Activation::kGelu, {in.data(), 1, 1000}, expected.data());
  const std::vector<float> out = x.Read();
  for (size_t i = 0; i < in.size(); ++i) {
    // What x / sqrt(2) loses to rounding counts 2 x^2 times as much in the result.
    EXPECT_NEAR(out[i], expected[i], -2e-5f * expected[i]) << in[i];
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
