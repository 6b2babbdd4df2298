#include "worker/layers/loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/casts.h"
#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/expect_near.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"

namespace sangam {
namespace {

using testing::DeviceMatrix;
using testing::ExpectNear;
using testing::NumericalGradient;
using testing::RandomFloats;
using testing::ToDouble;
using testing::Values;

std::unique_ptr<Backend> NewBackend() { return *CreateBackend("cpu"); }

std::unique_ptr<Loss> SoftmaxLoss() {
  v1::LossSpec spec;
  spec.mutable_softmax_cross_entropy();
  return *Loss::Create(spec, 1);
}

TEST(LossTest, SumsAndGradientAreTheReferences) {
  const std::unique_ptr<Backend> backend = NewBackend();
  const std::unique_ptr<Loss> loss = SoftmaxLoss();
  const std::vector<float> outputs = RandomFloats(6 * 10, 1, -3, 3);
  std::vector<uint32_t> labels = {0, 3, 9, 9, 1, 4};
  // At least these two rows are right.
  for (const ptrdiff_t row : {2, 5}) {
    const auto first = outputs.begin() + row * 10;
    labels[static_cast<size_t>(row)] =
        static_cast<uint32_t>(std::max_element(first, first + 10) - first);
  }
  const DeviceMatrix device(backend.get(), 6, 10, outputs);
  const DeviceMatrix gradient_device(backend.get(), 6, 10);
  Matrix gradient = gradient_device.view();
  const auto sums =
      testing::Sums(loss->Compute(backend.get(), device.view(), labels.data(), &gradient));
  ASSERT_TRUE(sums.ok()) << sums.status();
  const testing::ReferenceLoss expected =
      testing::SoftmaxCrossEntropy(ToDouble(outputs), labels, 10);
  EXPECT_NEAR(sums->loss, expected.loss, 6 * 1e-6);
  EXPECT_EQ(sums->correct, expected.correct);
  EXPECT_GE(sums->correct, 2u);
  const auto reference = [&](const Values& at) {
    return testing::SoftmaxCrossEntropy(at, labels, 10).loss;
  };
  ExpectNear(gradient_device.Read(), NumericalGradient(reference, ToDouble(outputs)), 1e-6);

  const auto evaluated =
      testing::Sums(loss->Compute(backend.get(), device.view(), labels.data(), nullptr));
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_EQ(evaluated->loss, sums->loss);
}

TEST(LossTest, NoRowsGiveNoLoss) {
  const std::unique_ptr<Backend> backend = NewBackend();
  const DeviceMatrix empty(backend.get(), 0, 10);
  Matrix gradient = empty.view();
  const auto sums =
      testing::Sums(SoftmaxLoss()->Compute(backend.get(), empty.view(), nullptr, &gradient));
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_EQ(sums->loss, 0.0);
  EXPECT_EQ(sums->correct, 0u);
}

TEST(LossTest, LabelOutOfRangeNamesRowLabelAndClasses) {
  const std::unique_ptr<Backend> backend = NewBackend();
  const DeviceMatrix outputs(backend.get(), 2, 10, RandomFloats(20, 1));
  const std::vector<uint32_t> labels = {3, 255};
  const absl::Status status =
      SoftmaxLoss()->Compute(backend.get(), outputs.view(), labels.data(), nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "softmax cross-entropy: label of row 1 is 255, expected one of 10 classes");
}

TEST(LossTest, EachPositionOfASequenceIsATerm) {
  const std::unique_ptr<Backend> backend = NewBackend();
  v1::LossSpec spec;
  spec.mutable_token_cross_entropy();
  const auto loss = Loss::Create(spec, 3);
  ASSERT_TRUE(loss.ok()) << loss.status();
  // Two sequences of three positions over a vocabulary of 5.
  const std::vector<float> outputs = RandomFloats(2 * 3 * 5, 1, -3, 3);
  const std::vector<uint32_t> labels = {4, 0, 2, 2, 1, 3};
  const DeviceMatrix device(backend.get(), 2, 15, outputs);
  const DeviceMatrix gradient_device(backend.get(), 2, 15);
  Matrix gradient = gradient_device.view();
  const auto sums =
      testing::Sums((*loss)->Compute(backend.get(), device.view(), labels.data(), &gradient));
  ASSERT_TRUE(sums.ok()) << sums.status();
  const testing::ReferenceLoss expected =
      testing::SoftmaxCrossEntropy(ToDouble(outputs), labels, 5);
  EXPECT_NEAR(sums->loss, expected.loss, 6e-6);
  EXPECT_EQ(sums->correct, expected.correct);
  ExpectNear(gradient_device.Read(), expected.gradient, 1e-6);
}

TEST(LossTest, ShapesThatDoNotFitAreRefused) {
  const std::unique_ptr<Backend> backend = NewBackend();
  v1::LossSpec spec;
  spec.mutable_token_cross_entropy();
  const auto loss = Loss::Create(spec, 3);
  ASSERT_TRUE(loss.ok()) << loss.status();
  const std::vector<uint32_t> labels(6, 0);
  const DeviceMatrix ragged(backend.get(), 2, 14, RandomFloats(28, 1));
  EXPECT_EQ((*loss)->Compute(backend.get(), ragged.view(), labels.data(), nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
  const DeviceMatrix outputs(backend.get(), 2, 15, RandomFloats(30, 1));
  Matrix gradient = ragged.view();
  EXPECT_EQ(
      (*loss)->Compute(backend.get(), outputs.view(), labels.data(), &gradient).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Loss::Create(spec, 0).ok());
  spec.mutable_softmax_cross_entropy();
  EXPECT_FALSE(Loss::Create(spec, 3).ok());
}

// Bits of numbers, as labels are stored.
std::vector<uint32_t> Targets(const std::vector<float>& numbers) {
  std::vector<uint32_t> words;
  for (const float number : numbers) words.push_back(absl::bit_cast<uint32_t>(number));
  return words;
}

TEST(LossTest, SquaredErrorOfNumbers) {
  const std::unique_ptr<Backend> backend = NewBackend();
  v1::LossSpec spec;
  spec.mutable_mean_squared_error();
  const auto loss = Loss::Create(spec, 3);
  ASSERT_TRUE(loss.ok()) << loss.status();
  const DeviceMatrix outputs(backend.get(), 2, 3, {1, 2, 3, 4, 5, 6});
  const DeviceMatrix gradient_device(backend.get(), 2, 3);
  Matrix gradient = gradient_device.view();
  const std::vector<uint32_t> targets = Targets({1, 1, 5, 4, 5.5f, 6});
  const auto sums =
      testing::Sums((*loss)->Compute(backend.get(), outputs.view(), targets.data(), &gradient));
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_EQ(sums->loss, 1 + 4 + 0.25);
  EXPECT_EQ(sums->correct, 0u);
  EXPECT_EQ(gradient_device.Read(), (std::vector<float>{0, 2, -4, 0, -1, 0}));
  const DeviceMatrix wide(backend.get(), 2, 4, RandomFloats(8, 1));
  EXPECT_EQ(
      (*loss)->Compute(backend.get(), wide.view(), targets.data(), nullptr).status().message(),
      "mean squared error: found outputs of 4 elements, expected the 3 targets");
}

TEST(LossTest, BinaryCrossEntropyOfNumbers) {
  const std::unique_ptr<Backend> backend = NewBackend();
  v1::LossSpec spec;
  spec.mutable_binary_cross_entropy();
  const auto loss = Loss::Create(spec, 2);
  ASSERT_TRUE(loss.ok()) << loss.status();
  const DeviceMatrix outputs(backend.get(), 2, 2, {0, 1000, -1000, 1000});
  const DeviceMatrix gradient_device(backend.get(), 2, 2);
  Matrix gradient = gradient_device.view();
  const std::vector<uint32_t> targets = Targets({1, 1, 0, 0});
  const auto sums =
      testing::Sums((*loss)->Compute(backend.get(), outputs.view(), targets.data(), &gradient));
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_NEAR(sums->loss, std::log(2.0) + 1000, 1e-4);
  EXPECT_EQ(sums->correct, 2u);
  ExpectNear(gradient_device.Read(), {-0.5, 0, 0, 1}, 1e-6);
  const std::vector<uint32_t> outside = Targets({1, 1, 2, 0});
  EXPECT_FALSE((*loss)->Compute(backend.get(), outputs.view(), outside.data(), nullptr).ok());
}

TEST(LossTest, UnknownLossIsRefused) {
  const absl::Status status = Loss::Create(v1::LossSpec(), 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

}  // namespace
}  // namespace sangam
