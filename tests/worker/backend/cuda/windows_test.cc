#include "worker/backend/cuda/windows.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/windows.h"
#include "worker/backend/shapes.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::RandomFloats;

struct Example {
  int64_t images;
  WindowShape shape;
  int64_t tile;  // pixels

  int64_t elements() const { return images * shape.in.elements(); }
  int64_t pixels() const { return images * shape.out().pixels(); }
  int64_t cols() const { return WindowElements(shape); }
};

// Tiles that end within a row of an image, within an image, and at its end.
const std::vector<Example> kExamples = {
    {1, {{1, 1, 1}, {1, 1, 1, 0}, 1}, 1},   {3, {{5, 4, 2}, {3, 2, 1, 1}, 3}, 7},
    {2, {{7, 5, 3}, {3, 3, 2, 1}, 5}, 12},  {2, {{8, 9, 4}, {5, 5, 3, 2}, 9}, 100},
    {2, {{9, 9, 8}, {1, 1, 2, 0}, 16}, 26}, {2, {{12, 10, 3}, {7, 7, 2, 3}, 16}, 31},
    {1, {{4, 4, 3}, {4, 4, 1, 3}, 2}, 5},   {5, {{3, 3, 1}, {2, 2, 1, 0}, 2}, 9},
};

TEST(CudaWindowsTest, CopiesAsOnTheCpu) {
  for (const Example& e : kExamples) {
    const std::vector<float> x = RandomFloats(e.elements(), 1);
    for (int64_t first = 0; first < e.pixels(); first += e.tile) {
      const int64_t count = std::min(e.tile, e.pixels() - first);
      std::vector<float> expected(static_cast<size_t>(count * e.cols()));
      cpu_kernels::WindowsToRows(e.shape, x.data(), first, count, expected.data());
      EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                  const DeviceFloats images(x, offset);
                  const DeviceFloats rows(count * e.cols(), offset);
                  EXPECT_EQ(
                      WindowsToRows(nullptr, e.shape, images.data(), first, count, rows.data()),
                      cudaSuccess);
                  return rows.Read();
                }),
                expected);
    }
  }
}

// In the same order, so exact.
TEST(CudaWindowsTest, AddsAsOnTheCpu) {
  for (const Example& e : kExamples) {
    const std::vector<float> before = RandomFloats(e.elements(), 2);
    for (int64_t first = 0; first < e.pixels(); first += e.tile) {
      const int64_t count = std::min(e.tile, e.pixels() - first);
      const std::vector<float> values = RandomFloats(count * e.cols(), 3);
      std::vector<float> expected = before;
      cpu_kernels::AddRowsToWindows(e.shape, values.data(), first, count, expected.data());
      EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                  const DeviceFloats rows(values, offset);
                  const DeviceFloats images(before, offset);
                  EXPECT_EQ(
                      AddRowsToWindows(nullptr, e.shape, rows.data(), first, count, images.data()),
                      cudaSuccess);
                  return images.Read();
                }),
                expected);
    }
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
