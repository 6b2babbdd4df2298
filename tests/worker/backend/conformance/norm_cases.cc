#include <algorithm>
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

// Norms over the batch (columns) and over a row.
namespace sangam::testing {
namespace {

constexpr float kNormEpsilon = 1e-3f;

// Sums of `terms` numbers and some roundings around them, relative to the largest.
double Tolerance(int64_t terms) { return static_cast<double>(terms + 16) * 0x1p-23; }

struct Example {
  Example(int64_t rows_in, int64_t cols_in)
      : rows(rows_in),
        cols(cols_in),
        x(RandomFloats(rows * cols, 1, -2, 3)),
        gain(RandomFloats(cols, 2, 0.5f, 2)),
        bias(RandomFloats(cols, 3)),
        dy(RandomFloats(rows * cols, 4)) {}
  int64_t rows, cols;
  std::vector<float> x, gain, bias, dy;
};

void ExpectNear(const std::vector<float>& found, const Values& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 1;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * largest) << i;
  }
}

struct BatchNormResult {
  std::vector<float> mean, variance, y, sums, dx;
  bool operator==(const BatchNormResult& other) const {
    return mean == other.mean && variance == other.variance && y == other.y &&
           sums == other.sums && dx == other.dx;
  }
};

BatchNormResult BatchNorm(Backend* backend, const Example& e, int64_t offset) {
  const DeviceMatrix in(backend, e.rows, e.cols, e.x, offset);
  const DeviceMatrix gain(backend, 1, e.cols, e.gain, 2 * offset);
  const DeviceMatrix bias(backend, 1, e.cols, e.bias, 3 * offset);
  const DeviceMatrix dy(backend, e.rows, e.cols, e.dy, offset);
  const DeviceMatrix mean(backend, 1, e.cols, offset);
  const DeviceMatrix variance(backend, 1, e.cols, 3 * offset);
  const DeviceMatrix out(backend, e.rows, e.cols, 2 * offset);
  const DeviceMatrix sums(backend, 2, e.cols, offset);
  const DeviceMatrix dx(backend, e.rows, e.cols, offset);
  EXPECT_TRUE(backend->ColumnMoments(in.view(), mean.view(), variance.view()).ok());
  EXPECT_TRUE(backend
                  ->NormalizeColumns(in.view(), mean.view(), variance.view(), kNormEpsilon,
                                     gain.view(), bias.view(), out.view())
                  .ok());
  EXPECT_TRUE(backend
                  ->BatchNormSums(in.view(), mean.view(), variance.view(), kNormEpsilon,
                                  dy.view(), sums.view())
                  .ok());
  EXPECT_TRUE(backend
                  ->BatchNormBackward(in.view(), mean.view(), variance.view(), kNormEpsilon,
                                      gain.view(), sums.view(), dy.view(), dx.view())
                  .ok());
  BatchNormResult result = {mean.Read(), variance.Read(), out.Read(), sums.Read(), dx.Read()};
  // Over their inputs, the same bits.
  const DeviceMatrix over(backend, e.rows, e.cols, e.dy);
  EXPECT_TRUE(backend
                  ->BatchNormBackward(in.view(), mean.view(), variance.view(), kNormEpsilon,
                                      gain.view(), sums.view(), over.view(), over.view())
                  .ok());
  EXPECT_EQ(over.Read(), result.dx);
  EXPECT_TRUE(backend
                  ->NormalizeColumns(in.view(), mean.view(), variance.view(), kNormEpsilon,
                                     gain.view(), bias.view(), in.view())
                  .ok());
  EXPECT_EQ(in.Read(), result.y);
  return result;
}

void BatchNormIsAsTheReference(Backend* backend, int64_t rows, int64_t cols) {
  const Example e(rows, cols);
  const auto width = static_cast<size_t>(cols);
  const Values x = ToDouble(e.x);
  const Moments moments = ColumnMoments(width, x);
  const BatchNormResult found = BatchNorm(backend, e, 0);
  // Moments are sums in a precision that no number of rows wears out.
  ExpectNear(found.mean, moments.mean, Tolerance(0));
  ExpectNear(found.variance, moments.variance, Tolerance(0));
  const double epsilon = double{kNormEpsilon};
  // A single row has no variance: what is divided by it loses digits.
  const double magnified = rows == 1 ? 1 / std::sqrt(epsilon) : 8;
  ExpectNear(found.y,
             NormalizeColumns(width, x, moments, epsilon, ToDouble(e.gain), ToDouble(e.bias)),
             magnified * Tolerance(0));
  const NormGradients expected =
      BatchNormBackward(width, x, epsilon, ToDouble(e.gain), ToDouble(e.dy));
  Values sums = expected.gain;
  sums.insert(sums.end(), expected.bias.begin(), expected.bias.end());
  ExpectNear(found.sums, sums, magnified * Tolerance(0));
  ExpectNear(found.dx, expected.x, magnified * Tolerance(0));
  for (const int64_t offset : {1, 3}) {
    EXPECT_TRUE(BatchNorm(backend, e, offset) == found) << "offset " << offset;
  }
}

// The pixels of a batch of images: a mean far from 0 must not drown the variance.
void MomentsOfManyRowsAreExact(Backend* backend) {
  constexpr int64_t kRows = 100000;
  std::vector<float> x = RandomFloats(kRows * 3, 1, 99, 101);
  const Moments expected = ColumnMoments(3, ToDouble(x));
  const DeviceMatrix in(backend, kRows, 3, x);
  const DeviceMatrix mean(backend, 1, 3);
  const DeviceMatrix variance(backend, 1, 3);
  ASSERT_TRUE(backend->ColumnMoments(in.view(), mean.view(), variance.view()).ok());
  ExpectNear(mean.Read(), expected.mean, 0x1p-23);
  ExpectNear(variance.Read(), expected.variance, 0x1p-23);
}

void NoRowsGiveNoSums(Backend* backend) {
  const DeviceMatrix mean(backend, 1, 2, {1.0f, 2.0f});
  const DeviceMatrix sums(backend, 2, 2);
  ASSERT_TRUE(backend
                  ->BatchNormSums({nullptr, 0, 2}, mean.view(), mean.view(), kNormEpsilon,
                                  {nullptr, 0, 2}, sums.view())
                  .ok());
  EXPECT_EQ(sums.Read(), std::vector<float>(4, 0.0f));
}

struct LayerNormResult {
  std::vector<float> y, mean, inverse, dx;
};

LayerNormResult NormRows(Backend* backend, const Example& e, int64_t offset) {
  const DeviceMatrix in(backend, e.rows, e.cols, e.x, offset);
  const DeviceMatrix gain(backend, 1, e.cols, e.gain, 2 * offset);
  const DeviceMatrix bias(backend, 1, e.cols, e.bias, 3 * offset);
  const DeviceMatrix dy(backend, e.rows, e.cols, e.dy, offset);
  const DeviceMatrix out(backend, e.rows, e.cols, 2 * offset);
  const DeviceMatrix mean(backend, e.rows, 1, offset);
  const DeviceMatrix inverse(backend, e.rows, 1, 3 * offset);
  const DeviceMatrix dx(backend, e.rows, e.cols, offset);
  EXPECT_TRUE(backend
                  ->LayerNorm(in.view(), gain.view(), bias.view(), kNormEpsilon, out.view(),
                              mean.view(), inverse.view())
                  .ok());
  EXPECT_TRUE(backend
                  ->LayerNormBackward(in.view(), gain.view(), mean.view(), inverse.view(),
                                      dy.view(), dx.view())
                  .ok());
  return {out.Read(), mean.Read(), inverse.Read(), dx.Read()};
}

void LayerNormIsAsTheReference(Backend* backend, int64_t rows, int64_t cols) {
  const Example e(rows, cols);
  const auto width = static_cast<size_t>(cols);
  const double epsilon = double{kNormEpsilon};
  const Values x = ToDouble(e.x);
  const LayerNormResult found = NormRows(backend, e, 0);
  const double tolerance =
      (cols == 1 ? 1 / std::sqrt(epsilon) : 8) * Tolerance(cols / 16);
  ExpectNear(found.y, LayerNorm(width, x, epsilon, ToDouble(e.gain), ToDouble(e.bias)), tolerance);
  const NormGradients expected =
      LayerNormBackward(width, x, epsilon, ToDouble(e.gain), ToDouble(e.dy));
  ExpectNear(found.dx, expected.x, tolerance);
  for (const int64_t offset : {1, 3}) {
    const LayerNormResult again = NormRows(backend, e, offset);
    EXPECT_EQ(again.y, found.y);
    EXPECT_EQ(again.dx, found.dx);
  }

  const DeviceMatrix in(backend, rows, cols, e.x);
  const DeviceMatrix mean(backend, rows, 1, found.mean);
  const DeviceMatrix inverse(backend, rows, 1, found.inverse);
  const DeviceMatrix dy(backend, rows, cols, e.dy);
  const std::vector<float> before = RandomFloats(cols, 5);
  for (const bool accumulate : {false, true}) {
    const DeviceMatrix dgain(backend, 1, cols, before);
    const DeviceMatrix dbias(backend, 1, cols, before);
    const absl::Status status = backend->LayerNormParameterGradients(
        in.view(), mean.view(), inverse.view(), dy.view(), accumulate, dgain.view(), dbias.view());
    ASSERT_TRUE(status.ok()) << status;
    Values gain = expected.gain;
    Values bias = expected.bias;
    for (size_t j = 0; j < width; ++j) {
      gain[j] += accumulate ? before[j] : 0.0;
      bias[j] += accumulate ? before[j] : 0.0;
    }
    ExpectNear(dgain.Read(), gain, tolerance + Tolerance(rows));
    ExpectNear(dbias.Read(), bias, Tolerance(rows));
  }
}

// Rows know nothing of one another: cut anywhere, the same bits.
void LayerNormRowsAreApart(Backend* backend) {
  const Example whole(5, 37);
  Example head = whole;
  Example tail = whole;
  head.rows = 2;
  tail.rows = 3;
  const auto cut = [](std::vector<float>* values, size_t first, size_t count) {
    const auto begin = values->begin() + static_cast<ptrdiff_t>(first);
    *values = std::vector<float>(begin, begin + static_cast<ptrdiff_t>(count));
  };
  for (auto part : {&Example::x, &Example::dy}) {
    cut(&(head.*part), 0, 2 * 37);
    cut(&(tail.*part), 2 * 37, 3 * 37);
  }
  const LayerNormResult expected = NormRows(backend, whole, 0);
  LayerNormResult found = NormRows(backend, head, 0);
  const LayerNormResult rest = NormRows(backend, tail, 0);
  found.y.insert(found.y.end(), rest.y.begin(), rest.y.end());
  found.dx.insert(found.dx.end(), rest.dx.begin(), rest.dx.end());
  EXPECT_EQ(found.y, expected.y);
  EXPECT_EQ(found.dx, expected.dx);
}

void NaNIsNotHidden(Backend* backend) {
  Example e(3, 20);
  e.x[27] = std::numeric_limits<float>::quiet_NaN();
  const LayerNormResult rows = NormRows(backend, e, 0);
  for (size_t i = 0; i < rows.y.size(); ++i) EXPECT_EQ(std::isnan(rows.y[i]), i / 20 == 1) << i;
  const DeviceMatrix in(backend, 3, 20, e.x);
  const DeviceMatrix mean(backend, 1, 20);
  const DeviceMatrix variance(backend, 1, 20);
  ASSERT_TRUE(backend->ColumnMoments(in.view(), mean.view(), variance.view()).ok());
  const std::vector<float> found = variance.Read();
  for (size_t j = 0; j < found.size(); ++j) EXPECT_EQ(std::isnan(found[j]), j == 7) << j;
}

}  // namespace

std::vector<OpCase> NormCases() {
  std::vector<OpCase> cases = {
      {"BatchNormMomentsOfManyRowsAreExact", MomentsOfManyRowsAreExact},
      {"BatchNormNoRowsGiveNoSums", NoRowsGiveNoSums},
      {"LayerNormRowsAreApart", LayerNormRowsAreApart},
      {"NormNaNIsNotHidden", NaNIsNotHidden},
  };
  const std::vector<std::vector<int64_t>> shapes = {{1, 1},  {1, 5},  {3, 2},   {5, 16},  {4, 17},
                                                    {9, 31}, {7, 64}, {33, 65}, {17, 500}, {800, 9}};
  for (const auto& shape : shapes) {
    const std::string suffix = absl::StrCat("_", shape[0], "x", shape[1]);
    cases.push_back({absl::StrCat("BatchNorm", suffix), [shape](Backend* backend) {
                       BatchNormIsAsTheReference(backend, shape[0], shape[1]);
                     }});
    cases.push_back({absl::StrCat("LayerNorm", suffix), [shape](Backend* backend) {
                       LayerNormIsAsTheReference(backend, shape[0], shape[1]);
                     }});
  }
  cases.push_back({"LayerNorm_0x5",
                   [](Backend* backend) { LayerNormIsAsTheReference(backend, 0, 5); }});
  return cases;
}

}  // namespace sangam::testing
