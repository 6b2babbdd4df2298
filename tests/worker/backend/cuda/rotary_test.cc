#include "worker/backend/cuda/rotary.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/rotary.h"
#include "worker/backend/shapes.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::RandomFloats;

struct Example {
  int64_t sequences, positions, heads, head_width;
  float base = 10000;
  bool backward = false;

  int64_t rows() const { return sequences * positions; }
  int64_t cols() const { return 3 * heads * head_width; }
  std::vector<float> x() const { return RandomFloats(rows() * cols(), 1); }
  Rotation rotation() const { return {positions, heads, base, backward}; }
};

std::vector<float> OnCpu(const Example& e) {
  std::vector<float> x = e.x();
  CpuRotary rotary;
  EXPECT_TRUE(rotary.Rotate(e.rotation(), {x.data(), e.rows(), e.cols()}, x.data()).ok());
  return x;
}

std::vector<float> OnDevice(const Example& e, bool in_place, int64_t offset) {
  const DeviceFloats x(e.x(), offset);
  const DeviceFloats out(e.rows() * e.cols(), offset);
  const DeviceBytes table(RotaryTableBytes(e.positions, e.head_width));
  auto* const turns = static_cast<float*>(table.data());
  EXPECT_EQ(FillRotaryTable(nullptr, e.positions, e.head_width, e.base, turns), cudaSuccess);
  const DeviceFloats& to = in_place ? x : out;
  EXPECT_EQ(Rotate(nullptr, e.rotation(), {x.data(), e.rows(), e.cols()}, turns, to.data()),
            cudaSuccess);
  return to.Read();
}

TEST(CudaRotaryTest, TurnsAsOnTheCpu) {
  for (const Example& e : {Example{1, 1, 1, 2}, Example{2, 3, 2, 6}, Example{3, 33, 3, 10},
                           Example{1, 1000, 1, 64, 1.5f}, Example{2, 31, 2, 18, 500, true}}) {
    const std::vector<float> found =
        SameInAllRuns([&e](int64_t offset) { return OnDevice(e, false, offset); });
    ExpectNear(found, OnCpu(e), 4 * 0x1p-24f);
    EXPECT_EQ(OnDevice(e, true, 0), found);
    EXPECT_EQ(OnDevice(e, true, 1), found);
  }
}

// More pairs than all threads of the largest grid.
TEST(CudaRotaryTest, TakesMorePairsThanThreads) {
  const Example e{2100, 2, 2, 84};
  EXPECT_GT(e.rows() * e.cols() / 2, 4096 * 256);
  ExpectNear(OnDevice(e, false, 0), OnCpu(e), 4 * 0x1p-24f);
}

}  // namespace
}  // namespace sangam::cuda_kernels
