#include "tests/worker/backend/cuda/kernel_runs.h"

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "cuda_on_cpu/control.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::kUntouched;
using ::sangam::testing::RandomFloats;

size_t BytesOf(size_t size, int64_t offset) {
  return (size + static_cast<size_t>(offset)) * sizeof(float);
}

// The first number whose bits differ, or the smaller size.
size_t FirstDifference(const std::vector<float>& a, const std::vector<float>& b) {
  size_t i = 0;
  while (i < a.size() && i < b.size() && std::memcmp(&a[i], &b[i], sizeof(float)) == 0) ++i;
  return i;
}

}  // namespace

DeviceBytes::DeviceBytes(size_t size) {
  if (size == 0) return;
  EXPECT_EQ(cudaMalloc(&data_, size), cudaSuccess);
}

DeviceBytes::~DeviceBytes() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }

DeviceFloats::DeviceFloats(int64_t size, int64_t offset)
    : size_(static_cast<size_t>(size)), offset_(offset), bytes_(BytesOf(size_, offset)) {
  const std::vector<float> front(static_cast<size_t>(offset), kUntouched);
  EXPECT_EQ(
      cudaMemcpy(bytes_.data(), front.data(), front.size() * sizeof(float), cudaMemcpyHostToDevice),
      cudaSuccess);
}

DeviceFloats::DeviceFloats(const std::vector<float>& values, int64_t offset)
    : DeviceFloats(static_cast<int64_t>(values.size()), offset) {
  EXPECT_EQ(
      cudaMemcpy(data(), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice),
      cudaSuccess);
}

std::vector<float> DeviceFloats::Read() const {
  std::vector<float> all(static_cast<size_t>(offset_) + size_);
  EXPECT_EQ(
      cudaMemcpy(all.data(), bytes_.data(), all.size() * sizeof(float), cudaMemcpyDeviceToHost),
      cudaSuccess);
  for (int64_t i = 0; i < offset_; ++i) EXPECT_EQ(all[static_cast<size_t>(i)], kUntouched);
  return {all.begin() + offset_, all.end()};
}

std::vector<float> SameInAllRuns(const std::function<std::vector<float>(int64_t offset)>& run) {
  struct Order {
    cuda_on_cpu::Order order;
    uint64_t seed;
    int64_t offset;
  };
  cuda_on_cpu::SetOrder(cuda_on_cpu::Order::kForward);
  const std::vector<float> first = run(0);
  for (const Order& order :
       {Order{cuda_on_cpu::Order::kForward, 0, 0}, Order{cuda_on_cpu::Order::kForward, 0, 1},
        Order{cuda_on_cpu::Order::kReverse, 0, 0}, Order{cuda_on_cpu::Order::kRandom, 1, 0},
        Order{cuda_on_cpu::Order::kRandom, 2, 3}}) {
    cuda_on_cpu::SetOrder(order.order, order.seed);
    const std::vector<float> again = run(order.offset);
    EXPECT_EQ(again.size(), first.size());
    const size_t at = FirstDifference(again, first);
    EXPECT_EQ(at, first.size()) << "order " << static_cast<int>(order.order) << ", offset "
                                << order.offset << ": element " << at << " differs";
  }
  cuda_on_cpu::SetOrder(cuda_on_cpu::Order::kForward);
  return first;
}

void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected,
                float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << "element " << i << " is " << found[i];
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(found[i], expected[i]) << "element " << i;
    } else {
      ASSERT_NEAR(found[i], expected[i], tolerance * (1 + std::abs(expected[i])))
          << "element " << i;
    }
  }
}

std::vector<float> WholeNumbers(int64_t count, uint64_t seed) {
  std::vector<float> values = RandomFloats(count, seed, -8, 8);
  for (float& value : values) value = std::round(value);
  return values;
}

std::vector<float> Joined(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace sangam::cuda_kernels
