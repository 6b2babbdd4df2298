#include "worker/backend/cuda/losses.h"

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/number_losses.h"
#include "worker/backend/cpu/softmax.h"
#include "worker/backend/shapes.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::RandomFloats;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

enum class Into { kNothing, kOther, kItself };

struct Result {
  ClassificationSums sums;
  std::vector<float> gradient;  // empty: none was wanted

  std::vector<float> All() const {
    std::vector<float> all = gradient;
    float halves[2];
    std::memcpy(halves, &sums.loss, sizeof(halves));
    all.insert(all.end(), {halves[0], halves[1], static_cast<float>(sums.correct)});
    return all;
  }
};

template <typename Launch>
Result OnDevice(const std::vector<float>& x, Into into, int64_t offset, const Launch& launch) {
  const DeviceFloats in(x, offset);
  const DeviceFloats other(static_cast<int64_t>(x.size()), offset);
  const DeviceBytes sums(sizeof(ClassificationSums));
  const DeviceFloats& gradient = into == Into::kItself ? in : other;
  EXPECT_EQ(launch(in.data(), into == Into::kNothing ? nullptr : gradient.data(),
                   static_cast<ClassificationSums*>(sums.data())),
            cudaSuccess);
  Result result;
  EXPECT_EQ(cudaMemcpy(&result.sums, sums.data(), sizeof(result.sums), cudaMemcpyDeviceToHost),
            cudaSuccess);
  if (into != Into::kNothing) result.gradient = gradient.Read();
  return result;
}

Result Softmax(const std::vector<float>& x, const std::vector<uint32_t>& labels,
               Into into = Into::kItself, int64_t offset = 0) {
  const auto rows = static_cast<int64_t>(labels.size());
  const auto cols = static_cast<int64_t>(x.size()) / rows;
  const DeviceBytes of_labels(labels.size() * sizeof(uint32_t));
  EXPECT_EQ(cudaMemcpy(of_labels.data(), labels.data(), labels.size() * sizeof(uint32_t),
                       cudaMemcpyHostToDevice),
            cudaSuccess);
  const DeviceBytes scratch(SoftmaxCrossEntropyScratchBytes(rows));
  return OnDevice(x, into, offset, [&](float* in, float* gradient, ClassificationSums* sums) {
    return SoftmaxCrossEntropy(nullptr, {in, rows, cols},
                               static_cast<const uint32_t*>(of_labels.data()), gradient,
                               scratch.data(), sums);
  });
}

Result SoftmaxOnCpu(std::vector<float> x, const std::vector<uint32_t>& labels) {
  const auto rows = static_cast<int64_t>(labels.size());
  const auto cols = static_cast<int64_t>(x.size()) / rows;
  Result result;
  result.sums = cpu_kernels::SoftmaxCrossEntropy({x.data(), rows, cols}, labels.data(), x.data());
  result.gradient = std::move(x);
  return result;
}

std::vector<uint32_t> Labels(int64_t rows, int64_t cols) {
  std::vector<uint32_t> labels;
  for (int64_t r = 0; r < rows; ++r) labels.push_back(static_cast<uint32_t>((r * 7 + 3) % cols));
  return labels;
}

// Groups of 32, of 256 and of 1024 threads.
TEST(CudaLossesTest, SoftmaxIsAsOnTheCpu) {
  const std::vector<std::pair<int64_t, int64_t>> shapes = {
      {1, 1}, {3, 2}, {32, 10}, {9, 33}, {5, 132}, {2, 1025}, {3, 2052}, {2, 16385}};
  for (const auto& [rows, cols] : shapes) {
    SCOPED_TRACE(cols);
    const std::vector<float> x = RandomFloats(rows * cols, 1, -8, 8);
    const std::vector<uint32_t> labels = Labels(rows, cols);
    const Result expected = SoftmaxOnCpu(x, labels);
    const Result found = Softmax(x, labels, Into::kOther);
    EXPECT_NEAR(found.sums.loss, expected.sums.loss, static_cast<double>(rows) * 1e-5);
    EXPECT_EQ(found.sums.correct, expected.sums.correct);
    ExpectNear(found.gradient, expected.gradient, 1e-6f);
    EXPECT_EQ(Softmax(x, labels, Into::kItself).All(), found.All());
    EXPECT_EQ(Softmax(x, labels, Into::kNothing).sums.loss, found.sums.loss);
    SameInAllRuns([&, &labels = labels](int64_t offset) {
      return Softmax(x, labels, Into::kItself, offset).All();
    });
  }
}

TEST(CudaLossesTest, SoftmaxTakesMoreRowsThanBlocks) {
  const int64_t rows = 4099;
  const std::vector<float> x = RandomFloats(rows * 1025, 1, -8, 8);
  const std::vector<uint32_t> labels = Labels(rows, 1025);
  const Result expected = SoftmaxOnCpu(x, labels);
  const Result found = Softmax(x, labels, Into::kNothing);
  EXPECT_NEAR(found.sums.loss, expected.sums.loss, static_cast<double>(rows) * 1e-5);
  EXPECT_EQ(found.sums.correct, expected.sums.correct);
}

TEST(CudaLossesTest, TheFirstOfEqualsIsPredicted) {
  for (const int64_t cols : {20, 1100}) {
    std::vector<float> row(static_cast<size_t>(cols), -600.0f);
    row[5] = row[18] = 1.0f;
    EXPECT_EQ(Softmax(row, {5}).sums.correct, 1u);
    EXPECT_EQ(Softmax(row, {18}).sums.correct, 0u);
    row.assign(row.size(), -kInfinity);
    EXPECT_EQ(Softmax(row, {0}).sums.correct, 1u);
    EXPECT_EQ(Softmax(row, {1}).sums.correct, 0u);
  }
}

TEST(CudaLossesTest, ExtremeLogits) {
  const Result found = Softmax({1000.0f, 0.0f, -1000.0f, -3e38f, 0.0f, 3e38f}, {1, 2});
  EXPECT_NEAR(found.sums.loss, 1000.0, 1e-4);
  EXPECT_EQ(found.sums.correct, 1u);
  EXPECT_EQ(found.gradient, (std::vector<float>{1, -1, 0, 0, 0, 0}));
  // As far below 0 as possible: lanes without elements must not matter.
  EXPECT_EQ(Softmax({-3e38f, -3e38f}, {0}).gradient, (std::vector<float>{-0.5f, 0.5f}));
  EXPECT_NEAR(Softmax({-kInfinity, 2.0f}, {1}).sums.loss, 0.0, 1e-12);
}

TEST(CudaLossesTest, NaNOfLogitsIsNotHidden) {
  for (const size_t cols : {size_t{3}, size_t{40}, size_t{1100}}) {
    for (const size_t at : {size_t{0}, cols - 1}) {
      std::vector<float> row(cols, 0.0f);
      row[at] = kNaN;
      const Result found = Softmax(row, {1});
      EXPECT_TRUE(std::isnan(found.sums.loss));
      EXPECT_EQ(found.sums.correct, 0u);
      EXPECT_TRUE(std::isnan(found.gradient[0]));
    }
  }
  EXPECT_TRUE(std::isnan(Softmax({-kInfinity, kNaN, -kInfinity}, {0}).sums.loss));
  EXPECT_TRUE(std::isnan(Softmax({-kInfinity, -kInfinity}, {0}).sums.loss));
  EXPECT_TRUE(std::isnan(Softmax({0, kInfinity, 0}, {0}).sums.loss));
}

enum class Number { kSquaredError, kBinaryCrossEntropy };

Result NumberLoss(Number number, const std::vector<float>& x, const std::vector<float>& targets,
                  Into into = Into::kItself, int64_t offset = 0) {
  const auto size = static_cast<int64_t>(x.size());
  const DeviceFloats of_targets(targets, offset);
  const DeviceBytes scratch(NumberLossScratchBytes(size));
  return OnDevice(x, into, offset, [&](float* in, float* gradient, ClassificationSums* sums) {
    const auto launch = number == Number::kSquaredError ? SquaredError : BinaryCrossEntropy;
    return launch(nullptr, {in, size, 1}, of_targets.data(), gradient, scratch.data(), sums);
  });
}

TEST(CudaLossesTest, NumberLossesAreAsOnTheCpu) {
  for (const int64_t size : {1, 33, 2145, 5000}) {
    const std::vector<float> x = RandomFloats(size, 1, -8, 8);
    const std::vector<float> targets = RandomFloats(size, 2, 0, 1);
    for (const Number number : {Number::kSquaredError, Number::kBinaryCrossEntropy}) {
      Result expected;
      expected.gradient = x;
      const ConstMatrix in(x.data(), size, 1);
      if (number == Number::kSquaredError) {
        expected.sums.loss =
            cpu_kernels::SquaredError(in, targets.data(), expected.gradient.data());
      } else {
        expected.sums =
            cpu_kernels::BinaryCrossEntropy(in, targets.data(), expected.gradient.data());
      }
      const Result found = NumberLoss(number, x, targets, Into::kOther);
      EXPECT_NEAR(found.sums.loss, expected.sums.loss, 1e-13 * expected.sums.loss);
      EXPECT_EQ(found.sums.correct, expected.sums.correct);
      ExpectNear(found.gradient, expected.gradient, 1e-6f);
      EXPECT_EQ(NumberLoss(number, x, targets, Into::kItself).All(), found.All());
      EXPECT_EQ(NumberLoss(number, x, targets, Into::kNothing).sums.loss, found.sums.loss);
      SameInAllRuns([&](int64_t offset) {
        return NumberLoss(number, x, targets, Into::kItself, offset).All();
      });
    }
  }
}

TEST(CudaLossesTest, ExtremeNumbers) {
  const Result found =
      NumberLoss(Number::kBinaryCrossEntropy, {1000.0f, -1000.0f, 3e38f, -3e38f}, {0, 0, 1, 0});
  EXPECT_NEAR(found.sums.loss, 1000, 1e-9);
  EXPECT_EQ(found.sums.correct, 3u);
  EXPECT_EQ(found.gradient, (std::vector<float>{1, 0, 0, 0}));
  // 0 is no positive output, and half a target is one.
  EXPECT_EQ(NumberLoss(Number::kBinaryCrossEntropy, {0, 0}, {0.5f, 0.25f}).sums.correct, 1u);
  for (const Number number : {Number::kSquaredError, Number::kBinaryCrossEntropy}) {
    const Result of_nan = NumberLoss(number, {0, kNaN}, {0, 1});
    EXPECT_TRUE(std::isnan(of_nan.sums.loss));
    EXPECT_TRUE(std::isnan(of_nan.gradient[1]));
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
