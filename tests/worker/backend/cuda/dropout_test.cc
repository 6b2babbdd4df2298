#include "worker/backend/cuda/dropout.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/dropout.h"
#include "worker/backend/shapes.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::RandomFloats;

struct Case {
  int64_t rows, cols;
  float rate;
  DropoutAddress address;
};

TEST(CudaDropoutTest, GivesTheBitsOfTheCpu) {
  const DropoutAddress far{0xFEDCBA9876543210u, 0x123456789ABCu, 0xFFFFFFFFu, 0xFFFFFF00u};
  for (const Case& c :
       {Case{1, 1, 0.5f, {}}, Case{3, 31, 0.1f, {1, 2, 3, 4}}, Case{5, 32, 0.9f, {1, 2, 3, 4}},
        Case{33, 33, 0.5f, far}, Case{4, 1000, 0.25f, far}, Case{3, 1237, 0, {5, 6, 7, 8}},
        Case{70, 4, 0.99f, far}}) {
    const std::vector<float> in = RandomFloats(c.rows * c.cols, 1);
    std::vector<float> expected(in.size());
    cpu_kernels::Dropout(c.address, c.rate, {in.data(), c.rows, c.cols}, expected.data());
    EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                const DeviceFloats x(in, offset);
                EXPECT_EQ(Dropout(nullptr, c.address, c.rate, {x.data(), c.rows, c.cols}, x.data()),
                          cudaSuccess);
                return x.Read();
              }),
              expected);
    const DropoutNumbers numbers = NumbersOf(c.address);
    const DeviceBytes on_device(sizeof(numbers));
    ASSERT_EQ(cudaMemcpy(on_device.data(), &numbers, sizeof(numbers), cudaMemcpyHostToDevice),
              cudaSuccess);
    const DeviceFloats x(in, 0);
    EXPECT_EQ(Dropout(nullptr, static_cast<const DropoutNumbers*>(on_device.data()), c.rate,
                      {x.data(), c.rows, c.cols}, x.data()),
              cudaSuccess);
    EXPECT_EQ(x.Read(), expected);
  }
}

TEST(CudaDropoutTest, TakesMoreRowsThanThreads) {
  const int64_t rows = 4096 * 256 + 77;
  const std::vector<float> in = RandomFloats(rows, 1);
  std::vector<float> expected(in.size());
  cpu_kernels::Dropout({1, 2, 3, 4}, 0.5f, {in.data(), rows, 1}, expected.data());
  const DeviceFloats x(in, 0);
  EXPECT_EQ(Dropout(nullptr, {1, 2, 3, 4}, 0.5f, {x.data(), rows, 1}, x.data()), cudaSuccess);
  EXPECT_EQ(x.Read(), expected);
}

}  // namespace
}  // namespace sangam::cuda_kernels
