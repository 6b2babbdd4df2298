#include "tests/cuda_on_cpu/include/cuda_on_cpu/launch.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "worker/backend/cuda/launch.h"

namespace {

__global__ void Scale(const float* __restrict__ x, float factor, int n, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * factor;
}

TEST(LaunchTest, RunsEveryThreadOfEveryBlock) {
  const int n = 1000;
  std::vector<float> x(n), y(n);
  for (int i = 0; i < n; ++i) x[i] = static_cast<float>(i);
  float *device_x, *device_y;
  ASSERT_EQ(cudaMalloc(&device_x, n * sizeof(float)), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&device_y, n * sizeof(float)), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(device_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
  SANGAM_LAUNCH(Scale, (n + 127) / 128, 128, 0, nullptr, device_x, 2.0f, n, device_y);
  ASSERT_EQ(cudaGetLastError(), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(y.data(), device_y, n * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
  for (int i = 0; i < n; ++i) ASSERT_EQ(y[i], 2.0f * x[i]);
}

class LaunchErrorsTest : public ::testing::Test {
 protected:
  LaunchErrorsTest() { cudaDeviceReset(); }
  ~LaunchErrorsTest() override { cudaDeviceReset(); }
};

__global__ void DoNothing() {}

cudaError_t TryShape(dim3 grid, dim3 block, size_t shared_bytes = 0) {
  SANGAM_LAUNCH(DoNothing, grid, block, shared_bytes, nullptr);
  return cudaGetLastError();
}

TEST_F(LaunchErrorsTest, ShapesAreCheckedAsOnADevice) {
  EXPECT_EQ(TryShape(1, 1024), cudaSuccess);
  EXPECT_EQ(TryShape(1, dim3(4, 4, 64)), cudaSuccess);
  EXPECT_EQ(TryShape(1, dim3(1, 1, 65)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(TryShape(1, 1025), cudaErrorInvalidConfiguration);
  EXPECT_EQ(TryShape(1, dim3(32, 33)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(TryShape(0, 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(TryShape(dim3(1, 0), 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(TryShape(1, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(TryShape(dim3(1, 65536), 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(TryShape(dim3(1, 1, 65536), 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(TryShape(1u << 31, 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(TryShape(1, 32, 48 << 10), cudaSuccess);
  EXPECT_EQ(TryShape(1, 32, (48 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(LaunchErrorsTest, AKernelThatFailsStopsTheDevice) {
  cuda_on_cpu::FailNextLaunch("Nothing", cudaErrorIllegalAddress);
  EXPECT_EQ(TryShape(1, 32), cudaSuccess);  // not known yet
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorIllegalAddress);
  void* pointer;
  EXPECT_EQ(cudaMalloc(&pointer, 8), cudaErrorIllegalAddress);
  EXPECT_EQ(TryShape(1, 32), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(TryShape(1, 32), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(LaunchErrorsTest, ALaunchThatIsRefusedDoesNot) {
  cuda_on_cpu::FailNextLaunch("DoNothing", cudaErrorLaunchOutOfResources);
  EXPECT_EQ(TryShape(1, 32), cudaErrorLaunchOutOfResources);
  EXPECT_EQ(TryShape(1, 32), cudaSuccess);
}

TEST_F(LaunchErrorsTest, ErrorsHaveNames) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

__global__ void SumBlock(const float* x, float* sums) {
  __shared__ float tile[256];
  SANGAM_DYNAMIC_SHARED(float, copy);
  tile[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  copy[255 - threadIdx.x] = tile[threadIdx.x];
  for (unsigned half = 128; half > 16; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) tile[threadIdx.x] += tile[threadIdx.x + half];
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    float sum = tile[threadIdx.x];
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += __shfl_down_sync(0xffffffffu, sum, distance);
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = sum + copy[0] - copy[0];
  }
}

TEST(LaunchTest, ThreadsOfABlockWorkTogether) {
  std::vector<float> x(512);
  for (int i = 0; i < 512; ++i) x[i] = static_cast<float>(i);
  float *device_x, *sums;
  ASSERT_EQ(cudaMalloc(&device_x, 2048), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&sums, 8), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(device_x, x.data(), 2048, cudaMemcpyHostToDevice), cudaSuccess);
  for (auto order :
       {cuda_on_cpu::Order::kForward, cuda_on_cpu::Order::kReverse, cuda_on_cpu::Order::kRandom}) {
    cuda_on_cpu::SetOrder(order, 7);
    SANGAM_LAUNCH(SumBlock, 2, 256, 1024, nullptr, device_x, sums);
    float result[2];
    ASSERT_EQ(cudaMemcpy(result, sums, 8, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(result[0], 255 * 128);
    EXPECT_EQ(result[1], 255 * 128 + 256 * 256);
  }
  cuda_on_cpu::SetOrder(cuda_on_cpu::Order::kForward);
}

}  // namespace
