#include "worker/backend/cpu/ordered_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

using ::sangam::testing::RandomFloats;

struct Shape {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

std::vector<Shape> Shapes() {
  const std::vector<std::vector<int64_t>> sizes = {
      {1, 1, 1},    {1, 10, 784},  {2, 3, 5},      {5, 7, 1},    {6, 16, 8},    {7, 17, 9},
      {16, 10, 64}, {13, 33, 255}, {16, 512, 256}, {31, 6, 257}, {512, 48, 16}, {10, 64, 300},
      {3, 20, 513}, {20, 5, 2048}, {12, 18, 2049}, {4, 9, 4500}, {128, 100, 40}};
  std::vector<Shape> shapes;
  for (const auto& size : sizes) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        shapes.push_back({size[0], size[1], size[2], transpose_a, transpose_b});
      }
    }
  }
  return shapes;
}

std::string Name(const Shape& s) {
  return absl::StrCat(s.m, "x", s.n, "x", s.k, s.transpose_a ? "_T" : "_N",
                      s.transpose_b ? "T" : "N");
}

struct Operands {
  explicit Operands(const Shape& s)
      : a(RandomFloats(s.m * s.k, 1)),
        b(RandomFloats(s.k * s.n, 2)),
        c(RandomFloats(s.m * s.n, 3)) {}
  std::vector<float> a, b, c;
};

GemmArguments ArgumentsOf(const Shape& s, const Operands& operands, std::vector<float>* c) {
  GemmArguments arguments;
  arguments.a = {operands.a.data(), s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k};
  arguments.transpose_a = s.transpose_a;
  arguments.b = {operands.b.data(), s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n};
  arguments.transpose_b = s.transpose_b;
  arguments.c = {c->data(), s.m, s.n};
  return arguments;
}

// The order that the header promises, element by element.
std::vector<float> Reference(const Shape& s, const Operands& operands, bool accumulate) {
  std::vector<float> c = operands.c;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      float& out = c[static_cast<size_t>(i * s.n + j)];
      for (int64_t stretch = 0; stretch < s.k; stretch += OrderedGemm::kStretch) {
        const int64_t end = std::min(s.k, stretch + OrderedGemm::kStretch);
        float sum = 0;
        for (int64_t run = stretch; run < end; run += OrderedGemm::kRun) {
          float part = 0;
          for (int64_t x = run; x < std::min(end, run + OrderedGemm::kRun); ++x) {
            part = std::fma(
                operands.a[static_cast<size_t>(s.transpose_a ? x * s.m + i : i * s.k + x)],
                operands.b[static_cast<size_t>(s.transpose_b ? j * s.k + x : x * s.n + j)], part);
          }
          sum = run == stretch ? part : sum + part;
        }
        out = accumulate || stretch > 0 ? out + sum : sum;
      }
    }
  }
  return c;
}

class OrderedGemmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!OrderedGemm::Available()) GTEST_SKIP() << "needs AVX2";
  }
};

TEST_F(OrderedGemmTest, SumsInTheOrderThatItPromises) {
  OrderedGemm gemm;
  for (const Shape& s : Shapes()) {
    const Operands operands(s);
    for (const bool accumulate : {false, true}) {
      std::vector<float> c = operands.c;
      GemmArguments arguments = ArgumentsOf(s, operands, &c);
      arguments.accumulate = accumulate;
      ASSERT_TRUE(gemm.Multiply(arguments).ok());
      ASSERT_EQ(c, Reference(s, operands, accumulate)) << Name(s) << " accumulate " << accumulate;
    }
  }
}

TEST_F(OrderedGemmTest, NothingToSumOverIsZero) {
  OrderedGemm gemm;
  const Shape s = {3, 5, 0, false, false};
  const Operands operands(s);
  std::vector<float> c = operands.c;
  GemmArguments arguments = ArgumentsOf(s, operands, &c);
  arguments.accumulate = true;
  ASSERT_TRUE(gemm.Multiply(arguments).ok());
  EXPECT_EQ(c, operands.c);
  arguments.accumulate = false;
  ASSERT_TRUE(gemm.Multiply(arguments).ok());
  EXPECT_EQ(c, std::vector<float>(15, 0.0f));
}

// What terms stand for: a product each, and sums of whole products.
std::vector<float> OneByOne(OrderedGemm* gemm, const Shape& s, const Operands& operands,
                            const std::vector<RowTerm>& terms) {
  std::vector<std::vector<float>> waiting;
  int64_t first = 0;
  for (const RowTerm& term : terms) {
    std::vector<float> c(static_cast<size_t>(s.m * s.n));
    GemmArguments arguments;
    arguments.a = {operands.a.data() + first * s.m, term.rows, s.m};
    arguments.transpose_a = true;
    arguments.b = {operands.b.data() + first * s.n, term.rows, s.n};
    arguments.c = {c.data(), s.m, s.n};
    EXPECT_TRUE(gemm->Multiply(arguments).ok());
    waiting.push_back(c);
    first += term.rows;
    for (uint32_t i = 0; i < term.additions; ++i) {
      const std::vector<float> right = waiting.back();
      waiting.pop_back();
      for (size_t e = 0; e < right.size(); ++e) waiting.back()[e] += right[e];
    }
  }
  EXPECT_EQ(waiting.size(), 1u);
  return waiting.front();
}

TEST_F(OrderedGemmTest, TermsAreProductsOfTheirOwn) {
  const std::vector<std::vector<RowTerm>> lists = {
      {{16, 0}},
      {{16, 0}, {16, 1}},
      {{16, 0}, {16, 1}, {16, 0}, {16, 2}, {16, 0}, {16, 1}, {16, 0}, {16, 3}},
      {{5, 0}, {0, 0}, {7, 2}},
      {{0, 0}, {4, 1}, {0, 1}},
      {{3, 0}, {2, 0}, {1, 0}, {1, 3}},
      {{300, 0}, {257, 1}},
      {{2049, 0}, {2100, 0}, {9, 1}, {2050, 2}},
  };
  OrderedGemm gemm;
  for (const std::vector<RowTerm>& terms : lists) {
    int64_t rows = 0;
    for (const RowTerm& term : terms) rows += term.rows;
    for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {6, 16}, {10, 64}, {7, 17}, {64, 50}, {13, 784}}) {
      const Shape s = {m, n, rows, true, false};
      const Operands operands(s);
      std::vector<float> c = operands.c;
      ASSERT_TRUE(gemm.MultiplyTerms({operands.a.data(), rows, m}, {operands.b.data(), rows, n},
                                     terms, {c.data(), m, n}, nullptr)
                      .ok());
      ASSERT_EQ(c, OneByOne(&gemm, s, operands, terms)) << Name(s) << ", " << terms.size();
    }
  }
}

TEST_F(OrderedGemmTest, ReadsNoRowThatItHasNotAskedFor) {
  OrderedGemm gemm;
  for (Shape s : Shapes()) {
    const Operands operands(s);
    std::vector<float> expected = operands.c;
    ASSERT_TRUE(gemm.Multiply(ArgumentsOf(s, operands, &expected)).ok());

    std::vector<float> coming(operands.b.size(), std::nanf(""));
    std::vector<float> c = operands.c;
    GemmArguments arguments = ArgumentsOf(s, operands, &c);
    arguments.b.data = coming.data();
    int64_t here = 0;
    const RowsWanted wanted = [&](int64_t rows) {
      EXPECT_GT(rows, here);
      std::copy(operands.b.begin() + here * arguments.b.cols,
                operands.b.begin() + rows * arguments.b.cols,
                coming.begin() + here * arguments.b.cols);
      here = rows;
      return absl::OkStatus();
    };
    arguments.rows_wanted = &wanted;
    ASSERT_TRUE(gemm.Multiply(arguments).ok());
    EXPECT_EQ(c, expected) << Name(s);
    EXPECT_EQ(here, arguments.b.rows) << Name(s);
  }
}

TEST_F(OrderedGemmTest, RowsThatItTellsOfAreFinal) {
  OrderedGemm gemm;
  std::vector<Shape> shapes = Shapes();
  shapes.push_back({300, 700, 40, true, false});
  for (const Shape& s : shapes) {
    const Operands operands(s);
    std::vector<float> expected = operands.c;
    ASSERT_TRUE(gemm.Multiply(ArgumentsOf(s, operands, &expected)).ok());
    std::vector<float> c = operands.c;
    GemmArguments arguments = ArgumentsOf(s, operands, &c);
    int64_t told = 0;
    size_t calls = 0;
    const RowsDone done = [&](int64_t rows) {
      EXPECT_GT(rows, told);
      EXPECT_TRUE(
          std::equal(c.begin() + told * s.n, c.begin() + rows * s.n, expected.begin() + told * s.n))
          << Name(s);
      told = rows;
      ++calls;
      return absl::OkStatus();
    };
    arguments.rows_done = &done;
    ASSERT_TRUE(gemm.Multiply(arguments).ok());
    EXPECT_EQ(c, expected) << Name(s);
    EXPECT_LE(told, s.m);
    EXPECT_GE(calls, s.m == 300 ? 3u : 0u);
  }
}

TEST_F(OrderedGemmTest, TermsTellOfRowsToo) {
  const Shape s = {300, 700, 48, true, false};
  const std::vector<RowTerm> terms = {{16, 0}, {16, 1}, {16, 1}};
  const Operands operands(s);
  OrderedGemm gemm;
  std::vector<float> expected = operands.c;
  const ConstMatrix a(operands.a.data(), s.k, s.m);
  const ConstMatrix b(operands.b.data(), s.k, s.n);
  ASSERT_TRUE(gemm.MultiplyTerms(a, b, terms, {expected.data(), s.m, s.n}, nullptr).ok());
  std::vector<float> c = operands.c;
  int64_t told = 0;
  const RowsDone done = [&](int64_t rows) {
    EXPECT_TRUE(
        std::equal(c.begin() + told * s.n, c.begin() + rows * s.n, expected.begin() + told * s.n));
    told = rows;
    return absl::OkStatus();
  };
  ASSERT_TRUE(gemm.MultiplyTerms(a, b, terms, {c.data(), s.m, s.n}, &done).ok());
  EXPECT_EQ(c, expected);
  EXPECT_EQ(told, s.m);
  const RowsDone refused = [](int64_t) { return absl::AbortedError("no"); };
  EXPECT_EQ(gemm.MultiplyTerms(a, b, terms, {c.data(), s.m, s.n}, &refused).code(),
            absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace sangam
