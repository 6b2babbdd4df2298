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

DropoutAddress At(uint64_t first_position) {
  DropoutAddress address;
  address.seed = 0x123456789ABCDEF0;
  address.step = 77;
  address.layer = 3;
  address.first_position = first_position;
  return address;
}

std::vector<float> Drop(Backend* backend, const DropoutAddress& address, float rate,
                        const std::vector<float>& x, int64_t rows, int64_t cols) {
  const DeviceMatrix in(backend, rows, cols, x);
  const DeviceMatrix out(backend, rows, cols);
  const absl::Status status = backend->Dropout(address, rate, in.view(), out.view());
  EXPECT_TRUE(status.ok()) << status;
  return out.Read();
}

void DropsByAddress(Backend* backend, int64_t rows, int64_t cols, float rate,
                    uint64_t first_position) {
  const DropoutAddress address = At(first_position);
  const std::vector<float> x = RandomFloats(rows * cols, 1);
  const std::vector<float> y = Drop(backend, address, rate, x, rows, cols);
  const Values factors =
      DropoutFactors({address.seed, address.step, address.layer, first_position}, double{rate},
                     static_cast<size_t>(rows), static_cast<size_t>(cols));
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i] == 0, factors[i] * x[i] == 0) << i;
    ASSERT_NEAR(y[i], x[i] * factors[i], 3e-7 * std::abs(y[i])) << i;
  }
  const DeviceMatrix in_place(backend, rows, cols, x);
  ASSERT_TRUE(backend->Dropout(address, rate, in_place.view(), in_place.view()).ok());
  EXPECT_EQ(in_place.Read(), y);
}

// However a batch is cut, each sample loses the same elements.
void DoesNotDependOnTheCut(Backend* backend) {
  constexpr int64_t kRows = 9;
  constexpr int64_t kCols = 300;
  const std::vector<float> x = RandomFloats(kRows * kCols, 1);
  const std::vector<float> whole = Drop(backend, At(50), 0.4f, x, kRows, kCols);
  for (const int64_t cut : {1, 4, 8}) {
    const auto middle = static_cast<ptrdiff_t>(cut * kCols);
    std::vector<float> parts =
        Drop(backend, At(50), 0.4f, {x.begin(), x.begin() + middle}, cut, kCols);
    const std::vector<float> rest = Drop(backend, At(50 + static_cast<uint64_t>(cut)), 0.4f,
                                         {x.begin() + middle, x.end()}, kRows - cut, kCols);
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, whole);
  }
}

void EveryPartOfTheAddressCounts(Backend* backend) {
  const std::vector<float> x(1000, 1.0f);
  const auto drop = [&](const DropoutAddress& address) {
    return Drop(backend, address, 0.5f, x, 1, 1000);
  };
  const std::vector<float> base = drop(At(5));
  EXPECT_EQ(drop(At(5)), base);
  EXPECT_NE(drop(At(6)), base);
  DropoutAddress other = At(5);
  other.seed += 1;
  EXPECT_NE(drop(other), base);
  other = At(5);
  other.step += 1;
  EXPECT_NE(drop(other), base);
  other = At(5);
  other.layer += 1;
  EXPECT_NE(drop(other), base);
}

// The kept fraction lies within five standard deviations, and the mean of ones stays one.
void KeepsTheRightFraction(Backend* backend, float rate) {
  constexpr int64_t kRows = 100;
  constexpr int64_t kCols = 1000;
  constexpr double kCount = kRows * kCols;
  const std::vector<float> ones(static_cast<size_t>(kCount), 1.0f);
  const std::vector<float> y = Drop(backend, At(0), rate, ones, kRows, kCols);
  double kept = 0;
  double sum = 0;
  for (const float value : y) {
    kept += value != 0 ? 1 : 0;
    sum += value;
  }
  const double keep = 1.0 - rate;
  const double deviation = std::sqrt(keep * rate / kCount);
  EXPECT_NEAR(kept / kCount, keep, 5 * deviation);
  EXPECT_NEAR(sum / kCount, 1.0, 5 * deviation / keep + 1e-6);
}

void WhatIsDroppedIsZero(Backend* backend) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> y =
      Drop(backend, At(0), 0.5f, std::vector<float>(1000, infinity), 1, 1000);
  for (const float value : y) EXPECT_TRUE(value == 0.0f || value == infinity);
}

void RateZeroIsTheIdentity(Backend* backend) {
  const std::vector<float> x = RandomFloats(7 * 11, 1);
  EXPECT_EQ(Drop(backend, At(0), 0.0f, x, 7, 11), x);
}

}  // namespace

std::vector<OpCase> DropoutCases() {
  std::vector<OpCase> cases = {
      {"DropoutDoesNotDependOnTheCut", DoesNotDependOnTheCut},
      {"DropoutEveryPartOfTheAddressCounts", EveryPartOfTheAddressCounts},
      {"DropoutWhatIsDroppedIsZero", WhatIsDroppedIsZero},
      {"DropoutRateZeroIsTheIdentity", RateZeroIsTheIdentity},
      {"DropoutAtTheLastPosition",
       [](Backend* backend) { DropsByAddress(backend, 3, 20, 0.3f, 0xFFFFFFFD); }},
  };
  const std::vector<std::vector<int64_t>> shapes = {{0, 5},   {1, 1},   {2, 3},   {3, 255},
                                                    {3, 256}, {2, 257}, {5, 1000}};
  for (const auto& shape : shapes) {
    cases.push_back({absl::StrCat("Dropout_", shape[0], "x", shape[1]), [shape](Backend* backend) {
                       DropsByAddress(backend, shape[0], shape[1], 0.3f, 12);
                     }});
  }
  int percent = 0;
  for (const float rate : {0.1f, 0.5f, 0.9f}) {
    percent = static_cast<int>(std::lround(rate * 100));
    cases.push_back({absl::StrCat("DropoutKeepsTheRightFraction_", percent),
                     [rate](Backend* backend) { KeepsTheRightFraction(backend, rate); }});
  }
  return cases;
}

}  // namespace sangam::testing
