#include "worker/backend/cuda/pooling.h"

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/pooling.h"
#include "worker/backend/shapes.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::RandomFloats;

struct Example {
  int64_t images;
  WindowShape shape;

  int64_t in_elements() const { return images * shape.in.elements(); }
  int64_t out_elements() const { return images * shape.out().elements(); }
};

// Windows that overlap, that leave gaps, that hang over every edge.
const std::vector<Example> kExamples = {
    {1, {{1, 1, 1}, {1, 1, 1, 0}, 1}},     {3, {{5, 4, 2}, {3, 2, 1, 1}, 2}},
    {2, {{7, 5, 3}, {3, 3, 2, 1}, 3}},     {2, {{7, 7, 5}, {2, 2, 2, 0}, 5}},
    {1, {{8, 9, 4}, {5, 5, 3, 2}, 4}},     {2, {{9, 9, 8}, {1, 1, 2, 0}, 8}},
    {3, {{14, 14, 32}, {3, 3, 1, 1}, 32}}, {2, {{12, 10, 3}, {7, 7, 2, 3}, 3}},
    {1, {{4, 4, 3}, {4, 4, 1, 3}, 3}},
};

// Some equal elements.
std::vector<float> Images(const Example& e) {
  std::vector<float> x = RandomFloats(e.in_elements(), 1);
  for (size_t i = 0; i + 1 < x.size(); i += 3) x[i] = std::round(x[i] * 4) / 4;
  return x;
}

// Results and gradients, one behind the other.
std::vector<float> MaxPool(const Example& e, const std::vector<float>& x,
                           const std::vector<float>& dy, int64_t offset = 0) {
  const DeviceFloats in(x, offset);
  const DeviceFloats gradient(dy, offset);
  const DeviceFloats out(e.out_elements(), offset);
  const DeviceFloats dx(e.in_elements(), offset);
  const ConstMatrix images(in.data(), e.images, e.shape.in.elements());
  EXPECT_EQ(MaxPool2d(nullptr, e.shape, images, out.data()), cudaSuccess);
  EXPECT_EQ(MaxPool2dBackward(nullptr, e.shape, images, out.data(), gradient.data(), dx.data()),
            cudaSuccess);
  return Joined(out.Read(), dx.Read());
}

TEST(CudaPoolingTest, MaxPoolIsAsOnTheCpu) {
  for (const Example& e : kExamples) {
    const std::vector<float> x = Images(e);
    const std::vector<float> dy = RandomFloats(e.out_elements(), 2);
    std::vector<float> y(dy.size());
    std::vector<float> dx(x.size());
    const ConstMatrix images(x.data(), e.images, e.shape.in.elements());
    cpu_kernels::MaxPool2d(e.shape, images, y.data());
    cpu_kernels::MaxPool2dBackward(e.shape, images, y.data(), dy.data(), dx.data());
    EXPECT_EQ(SameInAllRuns([&](int64_t offset) { return MaxPool(e, x, dy, offset); }),
              Joined(y, dx));
  }
}

TEST(CudaPoolingTest, AveragePoolIsAsOnTheCpu) {
  for (const Example& e : kExamples) {
    const std::vector<float> x = Images(e);
    const std::vector<float> dy = RandomFloats(e.out_elements(), 2);
    std::vector<float> y(dy.size());
    std::vector<float> dx(x.size());
    cpu_kernels::AveragePool2d(e.shape, {x.data(), e.images, e.shape.in.elements()}, y.data());
    cpu_kernels::AveragePool2dBackward(e.shape, {dy.data(), e.images, e.shape.out().elements()},
                                       dx.data());
    EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                const DeviceFloats in(x, offset);
                const DeviceFloats out(e.out_elements(), offset);
                const DeviceFloats gradient(dy, offset);
                const DeviceFloats back(e.in_elements(), offset);
                EXPECT_EQ(AveragePool2d(nullptr, e.shape,
                                        {in.data(), e.images, e.shape.in.elements()}, out.data()),
                          cudaSuccess);
                EXPECT_EQ(AveragePool2dBackward(
                              nullptr, e.shape,
                              {gradient.data(), e.images, e.shape.out().elements()}, back.data()),
                          cudaSuccess);
                return Joined(out.Read(), back.Read());
              }),
              Joined(y, dx));
  }
}

TEST(CudaPoolingTest, WhatTakesTheGradient) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float lowest = -std::numeric_limits<float>::infinity();
  const Example e = {1, {{2, 2, 1}, {2, 2, 1, 0}, 1}};
  EXPECT_EQ(MaxPool(e, {1, 3, 3, 3}, {5}), (std::vector<float>{3, 0, 5, 0, 0}));
  EXPECT_EQ(MaxPool(e, {0, -0.0f, 0, -1}, {5}), (std::vector<float>{0, 5, 0, 0, 0}));
  EXPECT_EQ(MaxPool(e, {lowest, lowest, lowest, lowest}, {5}),
            (std::vector<float>{lowest, 5, 0, 0, 0}));
  for (const std::vector<float>& x : {std::vector<float>{nan, 1, 2, 3}, {1, 9, nan, nan}}) {
    const std::vector<float> found = MaxPool(e, x, {5});
    EXPECT_TRUE(std::isnan(found[0]));
    const size_t first = std::isnan(x[0]) ? 0 : 2;
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(found[1 + i], i == first ? 5 : 0) << i;
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
