#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "worker/backend/backend.h"

// Sums of whole matrices.
namespace sangam::testing {
namespace {

void Adds(Backend* backend, int64_t rows, int64_t cols) {
  const std::vector<float> a = RandomFloats(rows * cols, 1);
  const std::vector<float> b = RandomFloats(rows * cols, 2);
  std::vector<float> expected;
  for (size_t i = 0; i < a.size(); ++i) expected.push_back(a[i] + b[i]);
  const DeviceMatrix a_device(backend, rows, cols, a);
  const DeviceMatrix b_device(backend, rows, cols, b);
  const DeviceMatrix out(backend, rows, cols);
  const absl::Status status = backend->Add(a_device.view(), b_device.view(), out.view());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out.Read(), expected);
  // Over either of its inputs.
  const DeviceMatrix a_again(backend, rows, cols, a);
  ASSERT_TRUE(backend->Add(a_again.view(), b_device.view(), a_again.view()).ok());
  EXPECT_EQ(a_again.Read(), expected);
  ASSERT_TRUE(backend->Add(a_device.view(), b_device.view(), b_device.view()).ok());
  EXPECT_EQ(b_device.Read(), expected);
}

void AddsToItself(Backend* backend) {
  const DeviceMatrix x(backend, 1, 3, {1.0f, -2.0f, 0.5f});
  ASSERT_TRUE(backend->Add(x.view(), x.view(), x.view()).ok());
  EXPECT_EQ(x.Read(), (std::vector<float>{2.0f, -4.0f, 1.0f}));
}

void AddsScaled(Backend* backend, int64_t rows, int64_t cols) {
  constexpr float kScale = -0.75f;
  const std::vector<float> x = RandomFloats(rows * cols, 1);
  const std::vector<float> before = RandomFloats(rows * cols, 2);
  for (const bool accumulate : {false, true}) {
    std::vector<float> expected;
    for (size_t i = 0; i < x.size(); ++i) {
      const float scaled = kScale * x[i];
      expected.push_back(accumulate ? before[i] + scaled : scaled);
    }
    const DeviceMatrix in(backend, rows, cols, x);
    const DeviceMatrix out(backend, rows, cols, before);
    const absl::Status status = backend->AddScaled(kScale, in.view(), accumulate, out.view());
    ASSERT_TRUE(status.ok()) << status;
    // Rounded once or twice.
    const std::vector<float> found = out.Read();
    for (size_t i = 0; i < x.size(); ++i) {
      const double size = std::abs(x[i]) + (accumulate ? std::abs(before[i]) : 0);
      ASSERT_NEAR(found[i], expected[i], accumulate ? 0x1p-23 * size : 0) << i;
    }
    // Over its input.
    ASSERT_TRUE(backend->AddScaled(1.0f, in.view(), accumulate, in.view()).ok());
    EXPECT_EQ(in.Read()[0], accumulate ? 2 * x[0] : x[0]);
  }
}

void CopiesColumns(Backend* backend) {
  const std::vector<float> x = RandomFloats(3 * 5, 1);
  const DeviceMatrix in(backend, 3, 5, x);
  const DeviceMatrix out(backend, 3, 4);
  ASSERT_TRUE(backend->CopyColumns(in.view(), 2, 3, out.view(), 1).ok());
  std::vector<float> expected;
  for (size_t r = 0; r < 3; ++r) {
    expected.insert(expected.end(), {kUntouched, x[5 * r + 2], x[5 * r + 3], x[5 * r + 4]});
  }
  EXPECT_EQ(out.Read(), expected);
  // Nothing to copy.
  ASSERT_TRUE(backend->CopyColumns(in.view(), 5, 0, out.view(), 4).ok());
  EXPECT_EQ(out.Read(), expected);
}

void AddsRepeated(Backend* backend, int64_t repeats, int64_t rows, int64_t cols) {
  const std::vector<float> x = RandomFloats(repeats * rows * cols, 1);
  const std::vector<float> addend = RandomFloats(rows * cols, 2);
  std::vector<float> expected;
  for (size_t i = 0; i < x.size(); ++i) expected.push_back(x[i] + addend[i % addend.size()]);
  const DeviceMatrix in(backend, repeats * rows, cols, x);
  const DeviceMatrix addend_device(backend, rows, cols, addend);
  const DeviceMatrix out(backend, repeats * rows, cols);
  const absl::Status status = backend->AddRepeated(in.view(), addend_device.view(), out.view());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out.Read(), expected);
  ASSERT_TRUE(backend->AddRepeated(in.view(), addend_device.view(), in.view()).ok());
  EXPECT_EQ(in.Read(), expected);
  if (repeats != 1) return;
  const DeviceMatrix again(backend, rows, cols, x);
  ASSERT_TRUE(backend->AddRepeated(again.view(), addend_device.view(), addend_device.view()).ok());
  EXPECT_EQ(addend_device.Read(), expected);
}

void SumsRepeated(Backend* backend, int64_t repeats, int64_t rows, int64_t cols) {
  const std::vector<float> x = RandomFloats(repeats * rows * cols, 1);
  const std::vector<float> before = RandomFloats(rows * cols, 2);
  for (const bool accumulate : {false, true}) {
    std::vector<float> expected = accumulate ? before : std::vector<float>(before.size(), 0.0f);
    for (size_t i = 0; i < x.size(); ++i) expected[i % expected.size()] += x[i];
    const DeviceMatrix in(backend, repeats * rows, cols, x);
    const DeviceMatrix out(backend, rows, cols, before);
    const absl::Status status = backend->SumRepeated(in.view(), accumulate, out.view());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out.Read(), expected);
  }
}

}  // namespace

std::vector<OpCase> SumCases() {
  std::vector<OpCase> cases = {{"AddToItself", AddsToItself}, {"CopyColumns", CopiesColumns}};
  const std::vector<std::vector<int64_t>> shapes = {{0, 5}, {5, 0},  {1, 1},    {1, 10},
                                                    {3, 7}, {4, 16}, {13, 129}, {64, 100}};
  for (const auto& shape : shapes) {
    cases.push_back({absl::StrCat("Add_", shape[0], "x", shape[1]),
                     [shape](Backend* backend) { Adds(backend, shape[0], shape[1]); }});
    if (shape[0] * shape[1] > 0) {
      cases.push_back({absl::StrCat("AddScaled_", shape[0], "x", shape[1]),
                       [shape](Backend* backend) { AddsScaled(backend, shape[0], shape[1]); }});
    }
    for (const int64_t repeats : {0, 1, 2, 5, 8}) {
      const std::string suffix = absl::StrCat("_", repeats, "x", shape[0], "x", shape[1]);
      cases.push_back({absl::StrCat("AddRepeated", suffix), [shape, repeats](Backend* backend) {
                         AddsRepeated(backend, repeats, shape[0], shape[1]);
                       }});
      cases.push_back({absl::StrCat("SumRepeated", suffix), [shape, repeats](Backend* backend) {
                         SumsRepeated(backend, repeats, shape[0], shape[1]);
                       }});
    }
  }
  cases.push_back({"Add_70001x3", [](Backend* backend) { Adds(backend, 70001, 3); }});
  cases.push_back(
      {"SumRepeated_3000x2x33", [](Backend* backend) { SumsRepeated(backend, 3000, 2, 33); }});
  return cases;
}

}  // namespace sangam::testing
