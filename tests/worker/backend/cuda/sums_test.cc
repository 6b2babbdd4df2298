#include "worker/backend/cuda/sums.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/elementwise.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::RandomFloats;

struct Shape {
  int64_t rows, cols;
};

const std::vector<Shape> kShapes = {{1, 1},     {31, 31},   {64, 128},  {65, 132}, {200, 260},
                                    {33, 1000}, {1000, 33}, {20000, 3}, {700, 4}};

std::vector<float> RunSumRows(const std::vector<float>& in, const Shape& shape,
                              const std::vector<float>& before, bool accumulate, int64_t offset) {
  const DeviceFloats x(in, offset);
  const DeviceFloats out(before, offset);
  const DeviceBytes scratch(SumRowsScratchBytes(shape.rows, shape.cols));
  EXPECT_EQ(
      SumRows(nullptr, {x.data(), shape.rows, shape.cols}, accumulate, scratch.data(), out.data()),
      cudaSuccess);
  return out.Read();
}

TEST(CudaSumsTest, TakeEachRowOnce) {
  for (const Shape& shape : kShapes) {
    const std::vector<float> in = WholeNumbers(shape.rows * shape.cols, 1);
    for (const bool accumulate : {false, true}) {
      const std::vector<float> before = WholeNumbers(shape.cols, 2);
      std::vector<float> expected = before;
      cpu_kernels::SumRows({in.data(), shape.rows, shape.cols}, accumulate, expected.data());
      EXPECT_EQ(RunSumRows(in, shape, before, accumulate, 0), expected);
    }
  }
}

TEST(CudaSumsTest, KeepTheirOrder) {
  for (const Shape& shape : kShapes) {
    const std::vector<float> in = RandomFloats(shape.rows * shape.cols, 1);
    const std::vector<float> before = RandomFloats(shape.cols, 2);
    std::vector<float> expected = before;
    cpu_kernels::SumRows({in.data(), shape.rows, shape.cols}, true, expected.data());
    ExpectNear(
        SameInAllRuns([&](int64_t offset) { return RunSumRows(in, shape, before, true, offset); }),
        expected, 3e-5f);
  }
}

TEST(CudaSumsTest, OfNoRowsAreZero) {
  EXPECT_EQ(RunSumRows({}, {0, 2}, {5, 6}, false, 0), (std::vector<float>{0, 0}));
  EXPECT_EQ(RunSumRows({}, {0, 2}, {5, 6}, true, 0), (std::vector<float>{5, 6}));
}

TEST(CudaSumsTest, OfRepeatedRowsHaveTheOrderOfTheCpu) {
  struct Case {
    int64_t repeats, rows, cols;
  };
  for (const Case& c : {Case{1, 1, 1}, Case{3, 5, 33}, Case{300, 2, 16}, Case{2, 40, 100}}) {
    const int64_t in_rows = c.repeats * c.rows;
    const std::vector<float> in = RandomFloats(in_rows * c.cols, 1);
    for (const bool accumulate : {false, true}) {
      const std::vector<float> before = RandomFloats(c.rows * c.cols, 2);
      std::vector<float> expected = before;
      cpu_kernels::SumRepeated({in.data(), in_rows, c.cols}, accumulate,
                               {expected.data(), c.rows, c.cols});
      EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                  const DeviceFloats x(in, offset);
                  const DeviceFloats out(before, offset);
                  EXPECT_EQ(SumRepeated(nullptr, {x.data(), in_rows, c.cols}, accumulate,
                                        {out.data(), c.rows, c.cols}),
                            cudaSuccess);
                  return out.Read();
                }),
                expected);
    }
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
