#include "worker/backend/cuda/bf16.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/bf16.h"

namespace sangam::cuda_kernels {
namespace {

// Numbers whose lower halves and signs differ, halfway cases, infinities and NaNs of all kinds.
std::vector<float> Examples() {
  std::vector<float> values;
  for (const uint32_t high :
       {0x0000u, 0x0001u, 0x3F80u, 0x3F81u, 0x7F7Fu, 0x7F80u, 0x7F81u, 0x7FC0u, 0x7FFFu}) {
    for (const uint32_t low : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      for (const uint32_t sign : {0u, 0x80000000u}) {
        const uint32_t bits = sign | high << 16 | low;
        float value;
        std::memcpy(&value, &bits, sizeof(value));
        values.push_back(value);
      }
    }
  }
  values.push_back(1.5f);  // an odd number of them
  return values;
}

TEST(CudaBf16Test, RoundsAsTheCpuDoes) {
  const std::vector<float> in = Examples();
  const auto size = static_cast<int64_t>(in.size());
  std::vector<float> expected(in.size());
  cpu_kernels::RoundToBf16(in.data(), size, expected.data());
  const std::vector<float> found = SameInAllRuns([&](int64_t offset) {
    const DeviceFloats x(in, offset);
    EXPECT_EQ(RoundToBf16(nullptr, x.data(), size, x.data()), cudaSuccess);
    return x.Read();
  });
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), in.size() * sizeof(float)), 0);
}

TEST(CudaBf16Test, PacksAsTheCpuDoes) {
  const std::vector<float> in = Examples();
  const auto size = static_cast<int64_t>(in.size());
  std::vector<uint16_t> expected(in.size());
  cpu_kernels::PackBf16(in.data(), size, expected.data());
  for (const size_t offset : {0, 1, 4}) {
    const DeviceFloats x(in, 0);
    const DeviceBytes packed((offset + in.size()) * sizeof(uint16_t));
    uint16_t* const out = static_cast<uint16_t*>(packed.data()) + offset;
    EXPECT_EQ(PackBf16(nullptr, x.data(), size, out), cudaSuccess);
    std::vector<uint16_t> found(in.size());
    EXPECT_EQ(
        cudaMemcpy(found.data(), out, found.size() * sizeof(uint16_t), cudaMemcpyDeviceToHost),
        cudaSuccess);
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
