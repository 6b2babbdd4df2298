#include "tests/cuda_on_cpu/shared_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/cuda_on_cpu/device_array.h"
#include "tests/cuda_on_cpu/shared_variables.h"
#include "worker/backend/cuda/launch.h"

namespace cuda_on_cpu::tests {
namespace {

// Each block reads what is there, then leaves a number for the next.
__global__ void ReadStatic(float* found) {
  __shared__ float tile[40];
  if (threadIdx.x == 0) {
    found[blockIdx.x] = tile[39];
    tile[39] = 5;
  }
}

TEST(SharedMemoryTest, StaticMemoryIsGarbageInEachBlock) {
  const DeviceArray<float> found(3);
  SANGAM_LAUNCH(ReadStatic, 3, 32, 0, nullptr, found.data());
  for (float value : found.Values()) EXPECT_TRUE(std::isnan(value)) << value;
  SANGAM_LAUNCH(ReadStatic, 3, 32, 0, nullptr, found.data());
  for (float value : found.Values()) EXPECT_TRUE(std::isnan(value)) << value;
}

template <typename T, int kSize>
__global__ void ReadTemplate(T* found) {
  __shared__ T tile[kSize];
  found[blockIdx.x] = tile[kSize - 1];
  tile[kSize - 1] = 5;
}

TEST(SharedMemoryTest, SoIsThatOfATemplate) {
  const DeviceArray<float> found(3);
  SANGAM_LAUNCH((ReadTemplate<float, 7>), 3, 1, 0, nullptr, found.data());
  for (float value : found.Values()) EXPECT_TRUE(std::isnan(value)) << value;
}

__device__ float ReadAndLeave() {
  __shared__ float of_a_function;
  const float found = of_a_function;
  of_a_function = 5;
  return found;
}

__global__ void ReadInAFunction(float* found) { found[blockIdx.x] = ReadAndLeave(); }

TEST(SharedMemoryTest, SoIsThatOfADeviceFunction) {
  const DeviceArray<float> found(3);
  for (int launch = 0; launch < 2; ++launch) {
    SANGAM_LAUNCH(ReadInAFunction, 3, 1, 0, nullptr, found.data());
    for (float value : found.Values()) EXPECT_TRUE(std::isnan(value)) << value;
  }
}

__global__ void ReadDynamic(float* found, int size) {
  SANGAM_DYNAMIC_SHARED(float, tile);
  found[blockIdx.x] = tile[size - 1];
  tile[size - 1] = 5;
}

TEST(SharedMemoryTest, DynamicMemoryIsGarbageInEachBlock) {
  const DeviceArray<float> found(3);
  SANGAM_LAUNCH(ReadDynamic, 3, 1, 400, nullptr, found.data(), 100);
  for (float value : found.Values()) EXPECT_TRUE(std::isnan(value)) << value;
}

TEST(SharedMemoryDeathTest, DynamicMemoryEndsWhereItWasAskedToEnd) {
  const DeviceArray<float> found(3);
  EXPECT_DEATH(
      {
        SANGAM_LAUNCH(ReadDynamic, 3, 1, 400, nullptr, found.data(), 101);
        cudaDeviceSynchronize();
      },
      "access to .* in kernel ReadDynamic, block \\(0, 0, 0\\), thread \\(0, 0, 0\\)");
}

TEST(SharedMemoryTest, FindsTheVariablesOfAKernel) {
  EXPECT_EQ(FindSharedVariables(reinterpret_cast<const void*>(ReadStatic)).own_bytes(), 160u);
  EXPECT_EQ(FindSharedVariables(reinterpret_cast<const void*>(ReadTemplate<float, 7>)).own_bytes(),
            28u);
  EXPECT_EQ(FindSharedVariables(reinterpret_cast<const void*>(ReadDynamic)).own_bytes(), 0u);
}

__global__ void UseMuch(float* found) {
  __shared__ float tile[8192];
  SANGAM_DYNAMIC_SHARED(float, more);
  tile[threadIdx.x] = 1;
  more[threadIdx.x] = 1;
  __syncthreads();
  const unsigned other = blockDim.x - 1 - threadIdx.x;
  found[threadIdx.x] = tile[other] + more[other];
}

TEST(SharedMemoryTest, MoreThan48KiBMustBeAskedFor) {
  const DeviceArray<float> found(3);
  SANGAM_LAUNCH(UseMuch, 1, 1, 16384, nullptr, found.data());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  SANGAM_LAUNCH(UseMuch, 1, 1, 16388, nullptr, found.data());
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(UseMuch, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(UseMuch, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10),
            cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  SANGAM_LAUNCH(UseMuch, 1, 1, 100 << 10, nullptr, found.data());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace
}  // namespace cuda_on_cpu::tests
