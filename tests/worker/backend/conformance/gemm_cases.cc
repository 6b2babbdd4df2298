#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "worker/backend/backend.h"
#include "worker/backend/shapes.h"

namespace sangam::testing {
namespace {

// Half the distance between 1 and the next float: the relative error of one rounding.
constexpr double kEpsilon = 0x1p-24;

struct GemmShape {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

std::string Name(const GemmShape& s) {
  return absl::StrCat(s.m, "x", s.n, "x", s.k, s.transpose_a ? "_T" : "_N",
                      s.transpose_b ? "T" : "N");
}

// The operands of a product on the host, and the product as plain loops have it.
struct Example {
  std::vector<float> a, b, c, bias;
  std::vector<double> product;  // op(a) op(b)
  std::vector<double> size;     // the same of absolute values

  explicit Example(const GemmShape& s)
      : a(RandomFloats(s.m * s.k, 1)),
        b(RandomFloats(s.k * s.n, 2)),
        c(RandomFloats(s.m * s.n, 3)),
        bias(RandomFloats(s.n, 4)),
        product(c.size(), 0.0),
        size(c.size(), 0.0) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t p = 0; p < s.k; ++p) {
        const double left = a[static_cast<size_t>(s.transpose_a ? p * s.m + i : i * s.k + p)];
        for (int64_t j = 0; j < s.n; ++j) {
          const double term =
              left * b[static_cast<size_t>(s.transpose_b ? j * s.k + p : p * s.n + j)];
          product[static_cast<size_t>(i * s.n + j)] += term;
          size[static_cast<size_t>(i * s.n + j)] += std::abs(term);
        }
      }
    }
  }
};

// Runs the product and gives c.
std::vector<float> Run(Backend* backend, const GemmShape& s, const Example& example,
                       bool accumulate, Epilogue epilogue, int64_t offset) {
  const DeviceMatrix a(backend, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, example.a,
                       offset);
  const DeviceMatrix b(backend, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, example.b,
                       2 * offset);
  const DeviceMatrix c(backend, s.m, s.n, example.c, 3 * offset);
  const DeviceMatrix bias(backend, 1, s.n, example.bias, offset);
  GemmArguments arguments;
  arguments.a = a.view();
  arguments.transpose_a = s.transpose_a;
  arguments.b = b.view();
  arguments.transpose_b = s.transpose_b;
  arguments.c = c.view();
  arguments.accumulate = accumulate;
  arguments.epilogue = epilogue;
  if (epilogue != Epilogue::kNone) arguments.bias = bias.view();
  const absl::Status status = backend->Gemm(arguments);
  EXPECT_TRUE(status.ok()) << status;
  return c.Read();
}

// Any order of a sum of k products errs by at most (k + 2) epsilon times the sum of their sizes
// (the two for what is added to the product).
void IsTheProduct(Backend* backend, const GemmShape& s, const Example& example, bool accumulate,
                  Epilogue epilogue) {
  const std::vector<float> c = Run(backend, s, example, accumulate, epilogue, 0);
  ASSERT_EQ(c.size(), example.product.size());
  for (size_t at = 0; at < c.size(); ++at) {
    double added = accumulate ? example.c[at] : 0.0;
    if (epilogue != Epilogue::kNone) added = example.bias[at % static_cast<size_t>(s.n)];
    double expected = example.product[at] + added;
    if (epilogue == Epilogue::kBiasRelu && expected < 0) expected = 0;
    const double tolerance =
        static_cast<double>(s.k + 2) * kEpsilon * (example.size[at] + std::abs(added));
    ASSERT_NEAR(c[at], expected, tolerance) << "element " << at;
  }
}

void IsTheProductInAllForms(Backend* backend, const GemmShape& s) {
  const Example example(s);
  IsTheProduct(backend, s, example, false, Epilogue::kNone);
  IsTheProduct(backend, s, example, true, Epilogue::kNone);
  IsTheProduct(backend, s, example, false, Epilogue::kBias);
  IsTheProduct(backend, s, example, false, Epilogue::kBiasRelu);
}

// Equal operands give equal bits, wherever they lie in memory.
void BitsDoNotDependOnTheAddress(Backend* backend, const GemmShape& s) {
  const Example example(s);
  for (const bool accumulate : {false, true}) {
    const std::vector<float> first = Run(backend, s, example, accumulate, Epilogue::kNone, 0);
    for (const int64_t offset : {0, 1, 3, 8}) {
      ASSERT_EQ(Run(backend, s, example, accumulate, Epilogue::kNone, offset), first)
          << "offset " << offset;
    }
  }
}

// With nothing to sum over, c is zero or stays.
void EmptySums(Backend* backend) {
  const GemmShape s = {3, 5, 0, false, false};
  const Example example(s);
  EXPECT_EQ(Run(backend, s, example, true, Epilogue::kNone, 0), example.c);
  EXPECT_THAT(Run(backend, s, example, false, Epilogue::kNone, 0), ::testing::Each(0.0f));
  const std::vector<float> biased = Run(backend, s, example, false, Epilogue::kBias, 0);
  EXPECT_EQ(std::vector<float>(biased.begin() + 5, biased.begin() + 10), example.bias);
}

void NaNGoesThroughTheEpilogue(Backend* backend) {
  const GemmShape s = {1, 2, 1, false, false};
  Example example(s);
  example.a = {std::nanf("")};
  const std::vector<float> c = Run(backend, s, example, false, Epilogue::kBiasRelu, 0);
  EXPECT_TRUE(std::isnan(c[0]) && std::isnan(c[1]));
}

// Rows [first, first + count) of `values`, of `cols` each.
std::vector<float> Rows(const std::vector<float>& values, int64_t first, int64_t count,
                        int64_t cols) {
  return {values.begin() + first * cols, values.begin() + (first + count) * cols};
}

// Where the backend says so, a row is the same alone and among others.
void RowsStandAlone(Backend* backend, const GemmShape& s) {
  if (!backend->rows_stand_alone() || s.transpose_a) return;
  const Example all(s);
  for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kBiasRelu}) {
    const bool accumulate = epilogue == Epilogue::kNone;
    const std::vector<float> c = Run(backend, s, all, accumulate, epilogue, 0);
    for (const int64_t count : {1, 2, 3, 5, 8, 16, 17, 32, 64}) {
      if (count > s.m) break;
      for (const int64_t first : {int64_t{0}, (s.m - count) / 2, s.m - count}) {
        Example some = all;
        some.a = Rows(all.a, first, count, s.k);
        some.c = Rows(all.c, first, count, s.n);
        const GemmShape part = {count, s.n, s.k, false, s.transpose_b};
        ASSERT_EQ(Run(backend, part, some, accumulate, epilogue, 0), Rows(c, first, count, s.n))
            << count << " rows from " << first;
      }
    }
  }
}

// a^T b in terms of `rows` rows, summed as a tree, is their products and sums.
void TermsAreProductsOfTheirOwn(Backend* backend, const GemmShape& s) {
  const int64_t half = s.k / 2;
  const int64_t quarter = half / 2;
  const std::vector<RowTerm> terms = {{quarter, 0}, {half - quarter, 1}, {0, 0}, {s.k - half, 2}};
  const Example all(s);
  const DeviceMatrix a(backend, s.k, s.m, all.a);
  const DeviceMatrix b(backend, s.k, s.n, all.b);
  const DeviceMatrix c(backend, s.m, s.n, all.c);
  const DeviceMatrix sums(backend, 1, s.m, std::vector<float>(static_cast<size_t>(s.m), 7.0f));
  if (!backend->rows_stand_alone()) {
    EXPECT_EQ(backend->GemmOfTerms(a.view(), b.view(), terms, c.view()).code(),
              absl::StatusCode::kUnimplemented);
    EXPECT_EQ(backend->SumRowsOfTerms(a.view(), terms, sums.view()).code(),
              absl::StatusCode::kUnimplemented);
    return;
  }
  ASSERT_TRUE(backend->GemmOfTerms(a.view(), b.view(), terms, c.view()).ok());
  ASSERT_TRUE(backend->SumRowsOfTerms(a.view(), terms, sums.view()).ok());
  std::vector<std::vector<float>> products, columns;
  int64_t first = 0;
  for (const RowTerm& term : terms) {
    Example part = all;
    part.a = Rows(all.a, first, term.rows, s.m);
    part.b = Rows(all.b, first, term.rows, s.n);
    const GemmShape shape = {s.m, s.n, term.rows, true, false};
    products.push_back(Run(backend, shape, part, false, Epilogue::kNone, 0));
    const DeviceMatrix rows(backend, term.rows, s.m, part.a);
    const DeviceMatrix sum(backend, 1, s.m, std::vector<float>(static_cast<size_t>(s.m), 7.0f));
    ASSERT_TRUE(backend->SumRows(rows.view(), false, sum.view()).ok());
    columns.push_back(sum.Read());
    first += term.rows;
  }
  const auto tree = [](const std::vector<std::vector<float>>& parts) {
    std::vector<float> sum = parts[0];
    for (size_t e = 0; e < sum.size(); ++e) {
      sum[e] = (parts[0][e] + parts[1][e]) + (parts[2][e] + parts[3][e]);
    }
    return sum;
  };
  ASSERT_EQ(c.Read(), tree(products));
  ASSERT_EQ(sums.Read(), tree(columns));
}

void RefusesOtherTerms(Backend* backend) {
  const DeviceMatrix a(backend, 4, 2, RandomFloats(8, 1));
  const DeviceMatrix b(backend, 4, 3, RandomFloats(12, 2));
  const DeviceMatrix c(backend, 2, 3, RandomFloats(6, 3));
  const std::vector<std::vector<RowTerm>> lists = {{},
                                                   {{3, 0}},
                                                   {{5, 0}},
                                                   {{2, 0}, {2, 0}},
                                                   {{2, 1}, {2, 0}},
                                                   {{2, 0}, {2, 2}},
                                                   {{-1, 0}, {5, 1}},
                                                   std::vector<RowTerm>(kMaxRowTermDepth + 1)};
  for (const std::vector<RowTerm>& terms : lists) {
    EXPECT_EQ(backend->GemmOfTerms(a.view(), b.view(), terms, c.view()).code(),
              absl::StatusCode::kInvalidArgument);
    const DeviceMatrix sums(backend, 1, 2, {0, 0});
    EXPECT_EQ(backend->SumRowsOfTerms(a.view(), terms, sums.view()).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace

std::vector<OpCase> GemmCases() {
  std::vector<OpCase> cases = {
      {"GemmEmptySums", EmptySums},
      {"GemmNaNGoesThroughTheEpilogue", NaNGoesThroughTheEpilogue},
      {"GemmRefusesOtherTerms", RefusesOtherTerms},
  };
  // No, one, odd and even sizes, around the widths of vectors and tiles.
  const std::vector<std::vector<int64_t>> sizes = {
      {0, 4, 3},    {4, 0, 3},      {1, 1, 1},      {1, 10, 784},   {3, 5, 7},       {7, 1, 33},
      {31, 33, 29}, {32, 64, 96},   {33, 17, 65},   {65, 129, 31},  {5, 512, 3},     {100, 10, 500},
      {17, 512, 1}, {64, 512, 300}, {256, 256, 40}, {512, 48, 257}, {20, 1024, 600},
  };
  for (const auto& size : sizes) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const GemmShape s = {size[0], size[1], size[2], transpose_a, transpose_b};
        cases.push_back({absl::StrCat("Gemm_", Name(s)),
                         [s](Backend* backend) { IsTheProductInAllForms(backend, s); }});
        if (s.m * s.n == 0) continue;
        cases.push_back({absl::StrCat("GemmBitsDoNotDependOnTheAddress_", Name(s)),
                         [s](Backend* backend) { BitsDoNotDependOnTheAddress(backend, s); }});
        if (!transpose_a) {
          cases.push_back({absl::StrCat("GemmRowsStandAlone_", Name(s)),
                           [s](Backend* backend) { RowsStandAlone(backend, s); }});
        } else if (!transpose_b) {
          cases.push_back({absl::StrCat("GemmTerms_", Name(s)),
                           [s](Backend* backend) { TermsAreProductsOfTheirOwn(backend, s); }});
        }
      }
    }
  }
  return cases;
}

}  // namespace sangam::testing
