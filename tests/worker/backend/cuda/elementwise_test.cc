#include "worker/backend/cuda/elementwise.h"

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/elementwise.h"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::RandomFloats;

struct Shape {
  int64_t rows, cols;
};

const std::vector<Shape> kShapes = {{1, 1}, {3, 31}, {2, 32}, {5, 33}, {7, 4}, {9, 300}};

TEST(CudaElementwiseTest, FillsAndCopies) {
  for (const int64_t size : {1, 3, 4, 31, 32, 33, 1000, 4099}) {
    const std::vector<float> values = RandomFloats(size, 1);
    EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                const DeviceFloats out(size, offset);
                EXPECT_EQ(Fill(nullptr, 2.5f, {out.data(), 1, size}), cudaSuccess);
                return out.Read();
              }),
              std::vector<float>(values.size(), 2.5f));
    EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                const DeviceFloats in(values, offset);
                const DeviceFloats out(size, offset);
                EXPECT_EQ(Copy(nullptr, in.data(), size, out.data()), cudaSuccess);
                return out.Read();
              }),
              values);
  }
}

TEST(CudaElementwiseTest, CopiesBetweenAddressesThatAreAlignedInDifferentWays) {
  const std::vector<float> values = RandomFloats(1003, 1);
  const DeviceFloats in(values, 1);
  const DeviceFloats out(1003, 0);
  EXPECT_EQ(Copy(nullptr, in.data(), 1003, out.data()), cudaSuccess);
  EXPECT_EQ(out.Read(), values);
}

TEST(CudaElementwiseTest, TakesMoreElementsThanThreads) {
  const int64_t size = 4096 * 256 + 77;
  const std::vector<float> values = RandomFloats(size, 1);
  const DeviceFloats in(values, 1);
  const DeviceFloats out(size, 1);
  EXPECT_EQ(Copy(nullptr, in.data(), size, out.data()), cudaSuccess);
  EXPECT_EQ(out.Read(), values);
}

TEST(CudaElementwiseTest, Adds) {
  for (const int64_t size : {1, 31, 32, 33, 1030}) {
    const std::vector<float> a = RandomFloats(size, 1);
    const std::vector<float> b = RandomFloats(size, 2);
    std::vector<float> sum(a.size());
    cpu_kernels::Add(a.data(), b.data(), size, sum.data());
    EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                const DeviceFloats x(a, offset);
                const DeviceFloats y(b, offset);
                EXPECT_EQ(Add(nullptr, x.data(), y.data(), size, y.data()), cudaSuccess);
                return y.Read();
              }),
              sum);
    std::vector<float> scaled(a.size());
    cpu_kernels::AddScaled(0.3f, a.data(), size, false, scaled.data());
    EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                const DeviceFloats x(a, offset);
                const DeviceFloats out(size, offset);
                EXPECT_EQ(AddScaled(nullptr, 0.3f, x.data(), size, false, out.data()), cudaSuccess);
                return out.Read();
              }),
              scaled);
    std::vector<float> added = b;
    cpu_kernels::AddScaled(0.3f, a.data(), size, true, added.data());
    EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                const DeviceFloats x(a, offset);
                const DeviceFloats out(b, offset);
                EXPECT_EQ(AddScaled(nullptr, 0.3f, x.data(), size, true, out.data()), cudaSuccess);
                return out.Read();
              }),
              added);
  }
}

TEST(CudaElementwiseTest, AddsABiasToEachRow) {
  for (const Shape& shape : kShapes) {
    const std::vector<float> in = RandomFloats(shape.rows * shape.cols, 1);
    const std::vector<float> bias = RandomFloats(shape.cols, 2);
    std::vector<float> sum = in;
    cpu_kernels::AddBias(bias.data(), {sum.data(), shape.rows, shape.cols});
    EXPECT_EQ(
        SameInAllRuns([&](int64_t offset) {
          const DeviceFloats x(in, offset);
          const DeviceFloats b(bias, offset);
          EXPECT_EQ(AddBias(nullptr, b.data(), {x.data(), shape.rows, shape.cols}), cudaSuccess);
          return x.Read();
        }),
        sum);
    std::vector<float> relu = in;
    cpu_kernels::AddBiasRelu(bias.data(), {relu.data(), shape.rows, shape.cols});
    EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                const DeviceFloats x(in, offset);
                const DeviceFloats b(bias, offset);
                EXPECT_EQ(AddBiasRelu(nullptr, b.data(), {x.data(), shape.rows, shape.cols}),
                          cudaSuccess);
                return x.Read();
              }),
              relu);
  }
}

TEST(CudaElementwiseTest, KeepsNanUnderRelu) {
  const DeviceFloats x({std::numeric_limits<float>::quiet_NaN(), -1.0f}, 0);
  const DeviceFloats bias(std::vector<float>{0.0f, 0.0f}, 0);
  EXPECT_EQ(AddBiasRelu(nullptr, bias.data(), {x.data(), 1, 2}), cudaSuccess);
  const std::vector<float> out = x.Read();
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], 0.0f);
}

TEST(CudaElementwiseTest, AddsRepeatedRows) {
  for (const Shape& shape : kShapes) {
    for (const int64_t repeats : {1, 2, 5}) {
      const int64_t rows = shape.rows * repeats;
      const std::vector<float> in = RandomFloats(rows * shape.cols, 1);
      const std::vector<float> addend = RandomFloats(shape.rows * shape.cols, 2);
      std::vector<float> sum(in.size());
      cpu_kernels::AddRepeated({in.data(), rows, shape.cols},
                               {addend.data(), shape.rows, shape.cols}, sum.data());
      EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                  const DeviceFloats x(in, offset);
                  const DeviceFloats y(addend, offset);
                  const DeviceFloats out(rows * shape.cols, offset);
                  EXPECT_EQ(AddRepeated(nullptr, {x.data(), rows, shape.cols},
                                        {y.data(), shape.rows, shape.cols}, out.data()),
                            cudaSuccess);
                  return out.Read();
                }),
                sum);
    }
  }
}

TEST(CudaElementwiseTest, CopiesColumns) {
  struct Case {
    int64_t rows, in_cols, in_column, columns, out_cols, out_column;
  };
  for (const Case& c :
       {Case{1, 1, 0, 1, 1, 0}, Case{5, 64, 16, 32, 48, 12}, Case{5, 64, 17, 32, 48, 12},
        Case{33, 7, 2, 4, 9, 5}, Case{9, 400, 0, 400, 400, 0}}) {
    const std::vector<float> in = RandomFloats(c.rows * c.in_cols, 1);
    const std::vector<float> before = RandomFloats(c.rows * c.out_cols, 2);
    std::vector<float> expected = before;
    cpu_kernels::CopyColumns({in.data(), c.rows, c.in_cols}, c.in_column, c.columns,
                             {expected.data(), c.rows, c.out_cols}, c.out_column);
    EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                const DeviceFloats x(in, offset);
                const DeviceFloats out(before, offset);
                EXPECT_EQ(CopyColumns(nullptr, {x.data(), c.rows, c.in_cols}, c.in_column,
                                      c.columns, {out.data(), c.rows, c.out_cols}, c.out_column),
                          cudaSuccess);
                return out.Read();
              }),
              expected);
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
