#include "tests/cuda_on_cpu/memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/cuda_on_cpu/device_array.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "worker/backend/cuda/launch.h"

namespace cuda_on_cpu::tests {
namespace {

// Every test starts with an empty device.
class MemoryTest : public ::testing::Test {
 protected:
  MemoryTest() { cudaDeviceReset(); }
  ~MemoryTest() override { SetStrict(false); }
};
using MemoryDeathTest = MemoryTest;

TEST_F(MemoryTest, AllocationsAreAlignedAndCounted) {
  size_t free_before, free_after, total;
  ASSERT_EQ(cudaMemGetInfo(&free_before, &total), cudaSuccess);
  void* pointer;
  ASSERT_EQ(cudaMalloc(&pointer, 1000), cudaSuccess);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pointer) % 256, 0u);
  ASSERT_EQ(cudaMemGetInfo(&free_after, &total), cudaSuccess);
  EXPECT_EQ(free_before - free_after, 1000u);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&free_after, &total), cudaSuccess);
  EXPECT_EQ(free_before, free_after);
}

TEST_F(MemoryTest, TheDeviceCanBeFull) {
  SetDeviceMemory(10000);
  void *first, *second;
  EXPECT_EQ(cudaMalloc(&first, 6000), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 6000), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 6000), cudaSuccess);
  size_t free, total;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 4000u);
  EXPECT_EQ(total, 10000u);
  cudaFree(second);
  SetDeviceMemory(size_t{16} << 30);
}

TEST_F(MemoryTest, RefusesToFreeWhatItDidNotAllocate) {
  int on_host;
  EXPECT_EQ(cudaFree(&on_host), cudaErrorInvalidValue);
  void* pointer;
  ASSERT_EQ(cudaMalloc(&pointer, 100), cudaSuccess);
  EXPECT_EQ(cudaFree(static_cast<char*>(pointer) + 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  EXPECT_EQ(cudaFree(pointer), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(MemoryTest, FreshMemoryIsGarbage) {
  const DeviceArray<float> x(3);
  for (float value : x.Values()) EXPECT_TRUE(std::isnan(value));
}

TEST_F(MemoryTest, SoIsALotOfIt) {
  constexpr size_t kSize = size_t{5} << 20;  // more than one mapping of garbage
  const DeviceArray<float> x(kSize);
  EXPECT_EQ(cudaMemset(x.data() + 1, 0, 4 * (kSize - 2)), cudaSuccess);
  const std::vector<float> values = x.Values();
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_TRUE(std::isnan(values[kSize - 1]));
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[kSize - 2], 0);
  const DeviceArray<float> y(kSize);
  for (float value : y.Values()) ASSERT_TRUE(std::isnan(value));
}

TEST_F(MemoryTest, SaysWhereAPointerPoints) {
  const DeviceArray<float> x(3);
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, x.data() + 2), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  int local;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &local), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  int* pinned;
  ASSERT_EQ(cudaMallocHost(&pinned, 100), cudaSuccess);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, HostMemoryCanBeRegisteredOnce) {
  std::vector<char> memory(10000);
  EXPECT_EQ(cudaHostRegister(memory.data(), 10000, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(memory.data() + 5000, 100, cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_F(MemoryTest, AThreadMayHaveToChooseItsDevice) {
  SetDeviceIsGiven(false);
  std::thread([] {
    void* pointer;
    EXPECT_EQ(cudaMalloc(&pointer, 100), cudaErrorInvalidDevice);
    cudaStream_t stream;
    EXPECT_EQ(cudaStreamCreate(&stream), cudaErrorInvalidDevice);
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&pointer, 100), cudaSuccess);
    EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  }).join();
  SetDeviceIsGiven(true);
  std::thread([] {
    void* pointer;
    EXPECT_EQ(cudaMalloc(&pointer, 100), cudaSuccess);
    EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  }).join();
}

__global__ void Write(float* x, long offset) { x[offset] = 1; }

void WriteAt(float* x, long offset) {
  SANGAM_LAUNCH(Write, 1, 1, 0, nullptr, x, offset);
  cudaDeviceSynchronize();
}

TEST_F(MemoryDeathTest, AWriteBeyondTheEnd) {
  const DeviceArray<float> x(64);
  WriteAt(x.data(), 63);
  EXPECT_DEATH(WriteAt(x.data(), 64),
               "access to .*, 0 bytes after the end of the 256 bytes .* in kernel Write, block "
               "\\(0, 0, 0\\), thread \\(0, 0, 0\\)");
}

TEST_F(MemoryDeathTest, AWriteBetweenTheEndAndTheNextAlignedAddress) {
  const DeviceArray<float> x(63);
  EXPECT_DEATH(WriteAt(x.data(), 63), "something wrote 0 bytes after the end of the 252 bytes");
  SetStrict(true);
  EXPECT_DEATH(WriteAt(x.data(), 63), "0 bytes after the end of the 252 bytes .* in Write");
}

TEST_F(MemoryDeathTest, AWriteBeforeTheStart) {
  const DeviceArray<float> x(63);
  EXPECT_DEATH(WriteAt(x.data(), -2), "something wrote 8 bytes before the 252 bytes");
  EXPECT_DEATH(WriteAt(x.data(), -1500), "access to .*, 6000 bytes before the 252 bytes");
}

TEST_F(MemoryDeathTest, AccessToMemoryThatIsFreed) {
  DeviceArray<float*> holder(1);
  float* x;
  ASSERT_EQ(cudaMalloc(&x, 400), cudaSuccess);
  ASSERT_EQ(cudaFree(x), cudaSuccess);
  EXPECT_DEATH(*x = 1, "access to .*, in the 400 bytes of device memory at .*, which are freed");
  EXPECT_DEATH(WriteAt(x, 0), "kernel Write: argument 0 .* is neither in device memory nor");
}

TEST_F(MemoryDeathTest, AHostPointerAsAnArgument) {
  std::vector<float> x(10);
  EXPECT_DEATH(WriteAt(x.data(), 0),
               "kernel Write: argument 0 .* is neither in device memory nor in pinned memory");
}

TEST_F(MemoryTest, PinnedHostMemoryIsReachedByKernels) {
  float* x;
  ASSERT_EQ(cudaHostAlloc(&x, 400, cudaHostAllocMapped), cudaSuccess);
  WriteAt(x, 3);
  EXPECT_EQ(x[3], 1);
  cudaFreeHost(x);
}

TEST_F(MemoryDeathTest, TheHostMayNotTouchDeviceMemoryWhenStrict) {
  SetStrict(true);
  const DeviceArray<float> x(std::vector<float>{1, 2, 3});
  EXPECT_DEATH(x.data()[1] = 5, "4 bytes into the 12 bytes of device memory at .*, by the host");
  WriteAt(x.data(), 0);
  EXPECT_EQ(x.Values()[1], 2);
}

TEST_F(MemoryTest, CopiesMustLieInOneAllocation) {
  const DeviceArray<float> x(10), y(10);
  std::vector<float> host(20);
  EXPECT_EQ(cudaMemcpy(x.data(), host.data(), 44, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(x.data(), host.data(), 40, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(x.data(), y.data(), 40, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(host.data(), y.data(), 40, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemset(x.data() + 5, 0, 24), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(x.data() + 5, 0, 20), cudaSuccess);
}

TEST_F(MemoryTest, CopiesRowsWithGaps) {
  const DeviceArray<float> x(std::vector<float>{1, 2, 3, 4, 5, 6});
  std::vector<float> host(4);
  ASSERT_EQ(cudaMemcpy2D(host.data(), 8, x.data(), 12, 8, 2, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(host, (std::vector<float>{1, 2, 4, 5}));
  EXPECT_EQ(cudaMemcpy2D(host.data(), 4, x.data(), 12, 8, 2, cudaMemcpyDeviceToHost),
            cudaErrorInvalidPitchValue);
}

}  // namespace
}  // namespace cuda_on_cpu::tests
