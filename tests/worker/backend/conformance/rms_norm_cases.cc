#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "worker/backend/backend.h"

namespace sangam::testing {
namespace {

constexpr float kRmsEpsilon = 1e-5f;

// Sums of `terms` products, however ordered, and some roundings around them, relative to the sum of
// sizes.
double Tolerance(int64_t terms) { return static_cast<double>(terms + 8) * 0x1p-24; }

struct Example {
  Example(int64_t rows, int64_t cols)
      : x(RandomFloats(rows * cols, 1, -2, 3)),
        gain(RandomFloats(cols, 2, 0.5f, 2)),
        dy(RandomFloats(rows * cols, 3)) {}
  std::vector<float> x, gain, dy;
};

void IsAsTheReference(Backend* backend, int64_t rows, int64_t cols) {
  const Example example(rows, cols);
  const RmsNormValues expected = RmsNorm(static_cast<size_t>(cols), ToDouble(example.x),
                                         ToDouble(example.gain), double{kRmsEpsilon});
  const double tolerance = Tolerance(cols);
  std::vector<float> first;
  for (const int64_t offset : {0, 0, 1, 3}) {
    const DeviceMatrix in(backend, rows, cols, example.x, offset);
    const DeviceMatrix gain(backend, 1, cols, example.gain, 2 * offset);
    const DeviceMatrix out(backend, rows, cols, 3 * offset);
    const DeviceMatrix inverse_rms(backend, rows, 1, offset);
    const absl::Status status =
        backend->RmsNorm(in.view(), gain.view(), kRmsEpsilon, out.view(), inverse_rms.view());
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<float> y = out.Read();
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], expected.y[i], tolerance * std::abs(expected.y[i])) << i;
    }
    const std::vector<float> s = inverse_rms.Read();
    for (size_t i = 0; i < s.size(); ++i) {
      ASSERT_NEAR(s[i], expected.inverse_rms[i], tolerance * expected.inverse_rms[i]) << i;
    }
    if (first.empty()) first = y;
    EXPECT_EQ(y, first) << "offset " << offset;
  }
}

void GradientsAreAsTheReference(Backend* backend, int64_t rows, int64_t cols) {
  const Example example(rows, cols);
  const RmsNormGradients expected =
      RmsNormBackward(static_cast<size_t>(cols), ToDouble(example.x), ToDouble(example.gain),
                      double{kRmsEpsilon}, ToDouble(example.dy));
  const DeviceMatrix in(backend, rows, cols, example.x);
  const DeviceMatrix gain(backend, 1, cols, example.gain);
  const DeviceMatrix dy(backend, rows, cols, example.dy);
  const DeviceMatrix out(backend, rows, cols);
  const DeviceMatrix inverse_rms(backend, rows, 1);
  ASSERT_TRUE(
      backend->RmsNorm(in.view(), gain.view(), kRmsEpsilon, out.view(), inverse_rms.view()).ok());
  const DeviceMatrix dx_device(backend, rows, cols);
  absl::Status status = backend->RmsNormBackward(in.view(), gain.view(), inverse_rms.view(),
                                                 dy.view(), dx_device.view());
  ASSERT_TRUE(status.ok()) << status;
  // Sizes of the terms: s |g d| and |x| s^3 / n sum |g d x| are at most 2 s and 18 s^3.
  const std::vector<float> dx = dx_device.Read();
  const std::vector<float> s = inverse_rms.Read();
  for (size_t i = 0; i < dx.size(); ++i) {
    const double of_row = double{s[i / static_cast<size_t>(cols)]};
    const double size = 2 * of_row + 18 * std::pow(of_row, 3);
    ASSERT_NEAR(dx[i], expected.x[i], Tolerance(cols) * size) << i;
  }

  const std::vector<float> before = RandomFloats(cols, 4);
  for (const bool accumulate : {false, true}) {
    const DeviceMatrix gain_gradient(backend, 1, cols, before);
    status = backend->RmsNormGainGradient(in.view(), inverse_rms.view(), dy.view(), accumulate,
                                          gain_gradient.view());
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<float> dgain = gain_gradient.Read();
    for (size_t j = 0; j < dgain.size(); ++j) {
      const double added = accumulate ? before[j] : 0.0;
      double size = std::abs(added);
      for (size_t r = 0; r < s.size(); ++r) size += double{s[r]} * 3;
      ASSERT_NEAR(dgain[j], expected.gain[j] + added, Tolerance(rows + cols) * size) << j;
    }
  }
}

// Rows know nothing of one another: cut anywhere, the same bits.
void RowsAreApart(Backend* backend) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kCols = 37;
  const Example example(kRows, kCols);
  const auto norm = [&](int64_t first, int64_t rows) {
    const auto begin = example.x.begin() + static_cast<ptrdiff_t>(first * kCols);
    const DeviceMatrix in(backend, rows, kCols, {begin, begin + rows * kCols});
    const DeviceMatrix gain(backend, 1, kCols, example.gain);
    const DeviceMatrix out(backend, rows, kCols);
    const DeviceMatrix inverse_rms(backend, rows, 1);
    EXPECT_TRUE(
        backend->RmsNorm(in.view(), gain.view(), kRmsEpsilon, out.view(), inverse_rms.view()).ok());
    return out.Read();
  };
  std::vector<float> parts = norm(0, 2);
  const std::vector<float> rest = norm(2, 3);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, norm(0, kRows));
}

void EpsilonKeepsZeroFinite(Backend* backend) {
  const DeviceMatrix in(backend, 1, 3, {0.0f, 0.0f, 0.0f});
  const DeviceMatrix gain(backend, 1, 3, {1.0f, 1.0f, 1.0f});
  const DeviceMatrix out(backend, 1, 3);
  const DeviceMatrix inverse_rms(backend, 1, 1);
  ASSERT_TRUE(backend->RmsNorm(in.view(), gain.view(), 0.25f, out.view(), inverse_rms.view()).ok());
  EXPECT_EQ(out.Read(), std::vector<float>(3, 0.0f));
  EXPECT_EQ(inverse_rms.Read(), std::vector<float>{2.0f});
}

void NaNIsNotHidden(Backend* backend) {
  std::vector<float> x(40, 1.0f);
  x[39] = std::numeric_limits<float>::quiet_NaN();
  const DeviceMatrix in(backend, 1, 40, x);
  const DeviceMatrix gain(backend, 1, 40, std::vector<float>(40, 1.0f));
  const DeviceMatrix out(backend, 1, 40);
  const DeviceMatrix inverse_rms(backend, 1, 1);
  ASSERT_TRUE(
      backend->RmsNorm(in.view(), gain.view(), kRmsEpsilon, out.view(), inverse_rms.view()).ok());
  for (const float y : out.Read()) EXPECT_TRUE(std::isnan(y));
}

}  // namespace

std::vector<OpCase> RmsNormCases() {
  std::vector<OpCase> cases = {
      {"RmsNormRowsAreApart", RowsAreApart},
      {"RmsNormEpsilonKeepsZeroFinite", EpsilonKeepsZeroFinite},
      {"RmsNormNaNIsNotHidden", NaNIsNotHidden},
  };
  const std::vector<std::vector<int64_t>> shapes = {{0, 5},  {1, 1},  {3, 2},   {5, 16},   {4, 17},
                                                    {9, 31}, {7, 64}, {33, 65}, {17, 1000}};
  for (const auto& shape : shapes) {
    const std::string suffix = absl::StrCat("_", shape[0], "x", shape[1]);
    cases.push_back({absl::StrCat("RmsNorm", suffix),
                     [shape](Backend* backend) { IsAsTheReference(backend, shape[0], shape[1]); }});
    cases.push_back({absl::StrCat("RmsNormGradients", suffix), [shape](Backend* backend) {
                       GradientsAreAsTheReference(backend, shape[0], shape[1]);
                     }});
  }
  return cases;
}

}  // namespace sangam::testing
