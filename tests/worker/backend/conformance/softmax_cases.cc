#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "worker/backend/backend.h"

namespace sangam::testing {
namespace {

std::vector<uint32_t> Labels(int64_t rows, int64_t classes) {
  std::vector<uint32_t> labels;
  for (int64_t r = 0; r < rows; ++r) labels.push_back(static_cast<uint32_t>((r * 7 + 3) % classes));
  return labels;
}

// One exponential errs by about 2 ulp, the sum of `classes` of them by classes / 16 + 4 roundings
// of its size at most: tolerance (classes / 16 + 8) epsilon.
double Tolerance(int64_t classes) { return (static_cast<double>(classes) / 16 + 8) * 0x1p-24; }

void IsAsTheReference(Backend* backend, int64_t rows, int64_t classes) {
  const std::vector<float> logits = RandomFloats(rows * classes, 1, -8, 8);
  const std::vector<uint32_t> labels = Labels(rows, classes);
  const DeviceMatrix in(backend, rows, classes, logits);
  const DeviceMatrix out(backend, rows, classes);
  Matrix gradient = out.view();
  const auto sums = Sums(backend->SoftmaxCrossEntropy(in.view(), labels.data(), &gradient));
  ASSERT_TRUE(sums.ok()) << sums.status();
  const ReferenceLoss expected =
      SoftmaxCrossEntropy(ToDouble(logits), labels, static_cast<size_t>(classes));
  const double tolerance = Tolerance(classes);
  EXPECT_NEAR(sums->loss, expected.loss, static_cast<double>(rows) * tolerance + 1e-12);
  EXPECT_EQ(sums->correct, expected.correct);
  const std::vector<float> dx = out.Read();
  for (size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], expected.gradient[i], tolerance) << i;

  // Without a gradient, and over the logits: the same.
  const auto without = Sums(backend->SoftmaxCrossEntropy(in.view(), labels.data(), nullptr));
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->loss, sums->loss);
  EXPECT_EQ(without->correct, sums->correct);
  Matrix in_place = in.view();
  const auto over = Sums(backend->SoftmaxCrossEntropy(in.view(), labels.data(), &in_place));
  ASSERT_TRUE(over.ok()) << over.status();
  EXPECT_EQ(over->loss, sums->loss);
  EXPECT_EQ(in.Read(), dx);
}

void GradientIsTheDerivative(Backend* backend) {
  const std::vector<float> logits = RandomFloats(4 * 5, 9, -3, 3);
  const std::vector<uint32_t> labels = Labels(4, 5);
  const DeviceMatrix in(backend, 4, 5, logits);
  const DeviceMatrix out(backend, 4, 5);
  Matrix gradient = out.view();
  ASSERT_TRUE(backend->SoftmaxCrossEntropy(in.view(), labels.data(), &gradient).ok());
  const Values derivative = NumericalGradient(
      [&](const Values& at) { return SoftmaxCrossEntropy(at, labels, 5).loss; }, ToDouble(logits));
  const std::vector<float> dx = out.Read();
  for (size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], derivative[i], 1e-6) << i;
}

void LargeLogitsDoNotOverflow(Backend* backend) {
  const DeviceMatrix in(backend, 2, 3, {1000.0f, 0.0f, -1000.0f, -3e38f, 0.0f, 3e38f});
  Matrix gradient = in.view();
  const std::vector<uint32_t> labels = {1, 2};
  const auto sums = Sums(backend->SoftmaxCrossEntropy(in.view(), labels.data(), &gradient));
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_NEAR(sums->loss, 1000.0, 1e-4);
  EXPECT_EQ(sums->correct, 1u);
  EXPECT_EQ(in.Read(), (std::vector<float>{1.0f, -1.0f, 0.0f, 0.0f, 0.0f, 0.0f}));
}

void TheFirstOfEqualsIsPredicted(Backend* backend) {
  // 20 classes: the largest stands twice, in different lanes of a vector.
  std::vector<float> row(20, 0.0f);
  row[4] = row[17] = 1.0f;
  const DeviceMatrix in(backend, 1, 20, row);
  for (const uint32_t label : {4u, 17u}) {
    const auto sums = Sums(backend->SoftmaxCrossEntropy(in.view(), &label, nullptr));
    ASSERT_TRUE(sums.ok()) << sums.status();
    EXPECT_EQ(sums->correct, label == 4 ? 1u : 0u);
  }
}

void NaNIsNotHidden(Backend* backend) {
  std::vector<float> row(40, 0.0f);
  row[39] = std::numeric_limits<float>::quiet_NaN();
  const DeviceMatrix in(backend, 1, 40, row);
  const uint32_t label = 0;
  const auto sums = Sums(backend->SoftmaxCrossEntropy(in.view(), &label, nullptr));
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_TRUE(std::isnan(sums->loss));
}

void NoRowsGiveNoLoss(Backend* backend) {
  const auto sums = Sums(backend->SoftmaxCrossEntropy({nullptr, 0, 10}, nullptr, nullptr));
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_EQ(sums->loss, 0.0);
  EXPECT_EQ(sums->correct, 0u);
}

void LabelOutOfRangeIsAnError(Backend* backend) {
  const DeviceMatrix in(backend, 3, 10, RandomFloats(30, 1));
  const DeviceMatrix out(backend, 3, 10);
  Matrix gradient = out.view();
  const std::vector<uint32_t> labels = {1, 2, 10};
  const absl::Status status =
      backend->SoftmaxCrossEntropy(in.view(), labels.data(), &gradient).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "softmax cross-entropy: label of row 2 is 10, expected one of 10 classes");
  EXPECT_EQ(out.Read(), std::vector<float>(30, kUntouched));
}

}  // namespace

std::vector<OpCase> SoftmaxCases() {
  std::vector<OpCase> cases = {
      {"SoftmaxGradientIsTheDerivative", GradientIsTheDerivative},
      {"SoftmaxLargeLogitsDoNotOverflow", LargeLogitsDoNotOverflow},
      {"SoftmaxTheFirstOfEqualsIsPredicted", TheFirstOfEqualsIsPredicted},
      {"SoftmaxNaNIsNotHidden", NaNIsNotHidden},
      {"SoftmaxNoRowsGiveNoLoss", NoRowsGiveNoLoss},
      {"SoftmaxLabelOutOfRangeIsAnError", LabelOutOfRangeIsAnError},
  };
  const std::vector<std::vector<int64_t>> shapes = {
      {1, 1}, {3, 2}, {32, 10}, {5, 16}, {4, 17}, {3, 31}, {2, 1000}, {1100, 10}, {1, 5000}};
  for (const auto& shape : shapes) {
    cases.push_back({absl::StrCat("Softmax_", shape[0], "x", shape[1]),
                     [shape](Backend* backend) { IsAsTheReference(backend, shape[0], shape[1]); }});
  }
  return cases;
}

}  // namespace sangam::testing
