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
#include "tests/testing/reference_ops.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "worker/backend/backend.h"

namespace sangam::testing {
namespace {

struct Sequences {
  int64_t sequences, positions, heads, head_width;
  int64_t rows() const { return sequences * positions; }
  int64_t width() const { return heads * head_width; }
  AttentionShape shape() const {
    AttentionShape shape;
    shape.positions = positions;
    shape.heads = heads;
    return shape;
  }
  SequenceShape reference() const {
    return {static_cast<size_t>(sequences), static_cast<size_t>(positions),
            static_cast<size_t>(heads), static_cast<size_t>(head_width)};
  }
};

std::string Name(const Sequences& s) {
  return absl::StrCat(s.sequences, "x", s.positions, "_", s.heads, "x", s.head_width);
}

struct Result {
  std::vector<float> out, log_sum, qkv_gradient;
  bool operator==(const Result& other) const {
    return out == other.out && log_sum == other.log_sum && qkv_gradient == other.qkv_gradient;
  }
};

// Forward and backward. `offset`: see DeviceMatrix.
Result Attend(Backend* backend, const Sequences& s, const std::vector<float>& x,
              const std::vector<float>& dy, int64_t offset = 0) {
  const DeviceMatrix qkv(backend, s.rows(), 3 * s.width(), x, offset);
  const DeviceMatrix out(backend, s.rows(), s.width(), 3 * offset);
  const DeviceMatrix log_sum(backend, s.rows(), s.heads, offset);
  absl::Status status = backend->CausalAttention(s.shape(), qkv.view(), out.view(), log_sum.view());
  EXPECT_TRUE(status.ok()) << status;
  const DeviceMatrix output_gradient(backend, s.rows(), s.width(), dy, 2 * offset);
  const DeviceMatrix qkv_gradient(backend, s.rows(), 3 * s.width(), offset);
  status = backend->CausalAttentionBackward(s.shape(), qkv.view(), out.view(), log_sum.view(),
                                            output_gradient.view(), qkv_gradient.view());
  EXPECT_TRUE(status.ok()) << status;
  return {out.Read(), log_sum.Read(), qkv_gradient.Read()};
}

struct Example {
  explicit Example(const Sequences& s)
      : x(RandomFloats(s.rows() * 3 * s.width(), 1)), dy(RandomFloats(s.rows() * s.width(), 2)) {}
  std::vector<float> x, dy;
};

// A score sums head_width products of numbers below 1 and is scaled by 1 / sqrt(head_width); its
// error is the relative error of a weight (together with some roundings of the exponential and of
// log_sum). Weights of a row sum to 1, and so errs an output.
double WeightError(const Sequences& s) {
  const auto width = static_cast<double>(s.head_width);
  return ((width + 8) * std::sqrt(width) + 16 + static_cast<double>(s.positions)) * 0x1p-24;
}

// The worst error of a gradient relative to the largest one.
void ExpectGradientNear(const std::vector<float>& actual, const Values& expected,
                        double tolerance) {
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest + 1e-12) << i;
  }
}

void IsAsTheReference(Backend* backend, const Sequences& s) {
  const Example example(s);
  const Result result = Attend(backend, s, example.x, example.dy);
  const AttentionValues expected = CausalAttention(s.reference(), ToDouble(example.x));
  const double tolerance = WeightError(s);
  for (size_t i = 0; i < result.out.size(); ++i) {
    ASSERT_NEAR(result.out[i], expected.y[i], tolerance) << i;
  }
  for (size_t i = 0; i < result.log_sum.size(); ++i) {
    ASSERT_NEAR(result.log_sum[i], expected.log_sum[i], tolerance) << i;
  }
  ExpectGradientNear(
      result.qkv_gradient,
      CausalAttentionBackward(s.reference(), ToDouble(example.x), ToDouble(example.dy)),
      4 * tolerance);
}

// Equal operands give equal bits, wherever they lie, and whatever was computed before.
void BitsDependOnValuesAlone(Backend* backend, const Sequences& s) {
  const Example example(s);
  const Result first = Attend(backend, s, example.x, example.dy);
  const Sequences other = {1, 40, 3, 24};
  const Example other_example(other);
  for (const int64_t offset : {0, 1, 3, 8}) {
    EXPECT_TRUE(Attend(backend, s, example.x, example.dy, offset) == first) << offset;
    Attend(backend, other, other_example.x, other_example.dy);
  }
}

void GradientIsTheDerivative(Backend* backend) {
  const Sequences s = {2, 5, 2, 4};
  const Example example(s);
  const Values dy = ToDouble(example.dy);
  const Values derivative = NumericalGradient(
      [&](const Values& at) {
        const Values y = CausalAttention(s.reference(), at).y;
        double sum = 0;
        for (size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
        return sum;
      },
      ToDouble(example.x));
  const Result result = Attend(backend, s, example.x, example.dy);
  for (size_t i = 0; i < derivative.size(); ++i) {
    EXPECT_NEAR(result.qkv_gradient[i], derivative[i], 1e-6) << i;
  }
}

template <typename T>
std::vector<T> Part(const std::vector<T>& values, int64_t begin, int64_t end) {
  return {values.begin() + static_cast<ptrdiff_t>(begin),
          values.begin() + static_cast<ptrdiff_t>(end)};
}

// However a batch is cut, a sequence gives the same bits.
void SequencesAreApart(Backend* backend) {
  const Sequences s = {3, 21, 2, 20};
  const Example example(s);
  const Result all = Attend(backend, s, example.x, example.dy);
  Sequences one = s;
  one.sequences = 1;
  const int64_t size = one.rows() * one.width();
  for (int64_t i = 0; i < s.sequences; ++i) {
    const Result alone = Attend(backend, one, Part(example.x, 3 * size * i, 3 * size * (i + 1)),
                                Part(example.dy, size * i, size * (i + 1)));
    EXPECT_EQ(alone.out, Part(all.out, size * i, size * (i + 1)));
    EXPECT_EQ(alone.qkv_gradient, Part(all.qkv_gradient, 3 * size * i, 3 * size * (i + 1)));
  }
}

// What comes later has no part in a position's sums, not even as NaN times 0.
void TheFutureIsNotSeen(Backend* backend) {
  const Sequences s = {1, 70, 1, 20};
  const Example example(s);
  const Result whole = Attend(backend, s, example.x, example.dy);
  for (int64_t now = 0; now < s.positions; ++now) {
    std::vector<float> x = example.x;
    const auto future = static_cast<ptrdiff_t>((now + 1) * 3 * s.width());
    std::fill(x.begin() + future, x.end(), std::numeric_limits<float>::quiet_NaN());
    const int64_t seen = (now + 1) * s.width();
    EXPECT_EQ(Part(Attend(backend, s, x, example.dy).out, 0, seen), Part(whole.out, 0, seen));
  }
}

void NaNIsNotHidden(Backend* backend) {
  const Sequences s = {1, 40, 1, 16};
  const Example example(s);
  for (const int64_t part : {0, 1, 2}) {
    std::vector<float> x = example.x;
    x[static_cast<size_t>(20 * 3 * s.width() + part * s.width() + 15)] =
        std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> out = Attend(backend, s, x, example.dy).out;
    EXPECT_TRUE(std::isnan(out[static_cast<size_t>(20 * s.width() + 15)])) << part;
    EXPECT_FALSE(std::isnan(out[static_cast<size_t>(19 * s.width() + 15)])) << part;
  }
}

void LargeScoresDoNotOverflow(Backend* backend) {
  // Scores of the second position: 0 and 1e6, of the third: 0, -1e6 and 0.
  const Sequences s = {1, 3, 1, 1};
  const std::vector<float> x = {0, 0, 5, 1000, 1000, 7, -1000, 0, 9};
  const Result result = Attend(backend, s, x, {1, 1, 1});
  EXPECT_EQ(result.out, (std::vector<float>{5, 7, 7}));
  EXPECT_EQ(result.log_sum[0], 0.0f);
  EXPECT_EQ(result.log_sum[1], 1e6f);
  EXPECT_NEAR(result.log_sum[2], std::log(2.0), 1e-7);
}

void NoSequences(Backend* backend) {
  const Result result = Attend(backend, {0, 7, 2, 3}, {}, {});
  EXPECT_TRUE(result.out.empty());
}

}  // namespace

std::vector<OpCase> AttentionCases() {
  std::vector<OpCase> cases = {
      {"AttentionGradientIsTheDerivative", GradientIsTheDerivative},
      {"AttentionSequencesAreApart", SequencesAreApart},
      {"AttentionTheFutureIsNotSeen", TheFutureIsNotSeen},
      {"AttentionNaNIsNotHidden", NaNIsNotHidden},
      {"AttentionLargeScoresDoNotOverflow", LargeScoresDoNotOverflow},
      {"AttentionNoSequences", NoSequences},
  };
  const std::vector<Sequences> shapes = {
      {1, 1, 1, 1},   {1, 2, 1, 2},    {2, 3, 2, 2},   {3, 5, 1, 3},  {1, 16, 2, 16},
      {2, 17, 3, 20}, {1, 31, 1, 33},  {1, 32, 2, 32}, {2, 33, 2, 8}, {1, 35, 1, 17},
      {1, 65, 2, 64}, {1, 130, 1, 32}, {1, 257, 1, 16}};
  for (const Sequences& s : shapes) {
    cases.push_back({absl::StrCat("Attention_", Name(s)),
                     [s](Backend* backend) { IsAsTheReference(backend, s); }});
    cases.push_back({absl::StrCat("AttentionBitsDependOnValuesAlone_", Name(s)),
                     [s](Backend* backend) { BitsDependOnValuesAlone(backend, s); }});
  }
  return cases;
}

}  // namespace sangam::testing
