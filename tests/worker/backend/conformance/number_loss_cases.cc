#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_norms.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "worker/backend/backend.h"

// Losses whose targets are numbers.
namespace sangam::testing {
namespace {

void SquaredErrorIsAsTheReference(Backend* backend, int64_t rows, int64_t cols) {
  const std::vector<float> x = RandomFloats(rows * cols, 1, -8, 8);
  const std::vector<float> targets = RandomFloats(rows * cols, 2, -8, 8);
  const DeviceMatrix in(backend, rows, cols, x);
  const DeviceMatrix out(backend, rows, cols);
  Matrix gradient = out.view();
  const auto loss = Sums(backend->SquaredError(in.view(), targets.data(), &gradient));
  ASSERT_TRUE(loss.ok()) << loss.status();
  const double expected = SquaredError(ToDouble(x), ToDouble(targets));
  EXPECT_NEAR(loss->loss, expected, 1e-12 * expected);
  const std::vector<float> dx = out.Read();
  for (size_t i = 0; i < dx.size(); ++i) {
    EXPECT_NEAR(dx[i], 2 * (double{x[i]} - double{targets[i]}), 32 * 0x1p-24);
  }
  const auto without = Sums(backend->SquaredError(in.view(), targets.data(), nullptr));
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->loss, loss->loss);
  gradient = in.view();
  const auto over = Sums(backend->SquaredError(in.view(), targets.data(), &gradient));
  ASSERT_TRUE(over.ok()) << over.status();
  EXPECT_EQ(over->loss, loss->loss);
  EXPECT_EQ(in.Read(), dx);
}

void CrossEntropyIsAsTheReference(Backend* backend, int64_t rows, int64_t cols) {
  const std::vector<float> x = RandomFloats(rows * cols, 1, -8, 8);
  std::vector<float> targets = RandomFloats(rows * cols, 2, 0, 1);
  for (size_t i = 0; i < targets.size(); i += 2) targets[i] = std::round(targets[i]);
  uint64_t correct = 0;
  for (size_t i = 0; i < x.size(); ++i) correct += (x[i] > 0) == (targets[i] >= 0.5f) ? 1 : 0;
  const DeviceMatrix in(backend, rows, cols, x);
  const DeviceMatrix out(backend, rows, cols);
  Matrix gradient = out.view();
  const auto sums = Sums(backend->BinaryCrossEntropy(in.view(), targets.data(), &gradient));
  ASSERT_TRUE(sums.ok()) << sums.status();
  const double expected = BinaryCrossEntropy(ToDouble(x), ToDouble(targets));
  EXPECT_NEAR(sums->loss, expected, 1e-6 * expected);
  EXPECT_EQ(sums->correct, correct);
  const Values sigmoid = Sigmoid(ToDouble(x));
  const std::vector<float> dx = out.Read();
  for (size_t i = 0; i < dx.size(); ++i) {
    EXPECT_NEAR(dx[i], sigmoid[i] - double{targets[i]}, 1e-6) << i;
  }
  const auto without = Sums(backend->BinaryCrossEntropy(in.view(), targets.data(), nullptr));
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->loss, sums->loss);
  EXPECT_EQ(without->correct, correct);
  gradient = in.view();
  ASSERT_TRUE(backend->BinaryCrossEntropy(in.view(), targets.data(), &gradient).ok());
  EXPECT_EQ(in.Read(), dx);
}

void LargeOutputsDoNotOverflow(Backend* backend) {
  const DeviceMatrix in(backend, 1, 4, {1000.0f, -1000.0f, 3e38f, -3e38f});
  const std::vector<float> targets = {0, 0, 1, 0};
  Matrix gradient = in.view();
  const auto sums = Sums(backend->BinaryCrossEntropy(in.view(), targets.data(), &gradient));
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_NEAR(sums->loss, 1000, 1e-9);
  EXPECT_EQ(sums->correct, 3u);
  EXPECT_EQ(in.Read(), (std::vector<float>{1, 0, 0, 0}));
}

// 0 is no positive output, and half a target is one.
void BordersOfCorrect(Backend* backend) {
  const DeviceMatrix in(backend, 1, 2, {0.0f, 0.0f});
  for (const float target : {0.5f, 0.25f}) {
    const std::vector<float> targets = {target, target};
    const auto sums = Sums(backend->BinaryCrossEntropy(in.view(), targets.data(), nullptr));
    ASSERT_TRUE(sums.ok()) << sums.status();
    EXPECT_EQ(sums->correct, target < 0.5f ? 2u : 0u);
  }
}

void NaNIsNotHidden(Backend* backend) {
  const DeviceMatrix in(backend, 1, 2, {0.0f, std::numeric_limits<float>::quiet_NaN()});
  const DeviceMatrix out(backend, 1, 2);
  const std::vector<float> targets = {0.0f, 1.0f};
  Matrix gradient = out.view();
  const auto sums = Sums(backend->BinaryCrossEntropy(in.view(), targets.data(), &gradient));
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_TRUE(std::isnan(sums->loss));
  EXPECT_TRUE(std::isnan(out.Read()[1]));
  const auto loss = Sums(backend->SquaredError(in.view(), targets.data(), &gradient));
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_TRUE(std::isnan(loss->loss));
  EXPECT_TRUE(std::isnan(out.Read()[1]));
}

void TargetOutOfRangeIsAnError(Backend* backend) {
  const DeviceMatrix in(backend, 2, 2, {1, 2, 3, 4});
  const DeviceMatrix out(backend, 2, 2);
  Matrix gradient = out.view();
  const std::vector<float> targets = {0, 1, 1.5f, 0};
  const absl::Status status =
      backend->BinaryCrossEntropy(in.view(), targets.data(), &gradient).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "binary cross-entropy: target of row 1, column 0 is 1.5, expected a number between 0 "
            "and 1");
  EXPECT_EQ(out.Read(), std::vector<float>(4, kUntouched));
}

}  // namespace

std::vector<OpCase> NumberLossCases() {
  std::vector<OpCase> cases = {
      {"BinaryCrossEntropyLargeOutputsDoNotOverflow", LargeOutputsDoNotOverflow},
      {"BinaryCrossEntropyBordersOfCorrect", BordersOfCorrect},
      {"NumberLossNaNIsNotHidden", NaNIsNotHidden},
      {"BinaryCrossEntropyTargetOutOfRangeIsAnError", TargetOutOfRangeIsAnError},
  };
  const std::vector<std::vector<int64_t>> shapes = {{0, 3},  {3, 0},  {1, 1},   {3, 1},
                                                    {5, 16}, {4, 17}, {33, 65}, {3000, 11}};
  for (const auto& shape : shapes) {
    const std::string suffix = absl::StrCat("_", shape[0], "x", shape[1]);
    cases.push_back({absl::StrCat("SquaredError", suffix), [shape](Backend* backend) {
                       SquaredErrorIsAsTheReference(backend, shape[0], shape[1]);
                     }});
    cases.push_back({absl::StrCat("BinaryCrossEntropy", suffix), [shape](Backend* backend) {
                       CrossEntropyIsAsTheReference(backend, shape[0], shape[1]);
                     }});
  }
  return cases;
}

}  // namespace sangam::testing
