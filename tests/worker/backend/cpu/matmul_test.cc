#include "worker/backend/cpu/matmul.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/cpu/bf16.h"
#include "worker/backend/cpu/gemm.h"

namespace sangam {
namespace {

using testing::RandomFloats;

struct Shape {
  int64_t m, n, k;
};
constexpr Shape kShapes[] = {{1, 1, 1}, {3, 5, 7}, {32, 64, 96}, {33, 17, 65}, {5, 512, 3}};

// Factors are given as numbers that bfloat16 has, so that both formats have one right result.
void IsTheProduct(FactorFormat format, const Shape& s, bool transpose_a, bool transpose_b,
                  bool accumulate, CpuMatmul* matmul) {
  std::vector<float> a = RandomFloats(s.m * s.k, 1);
  std::vector<float> b = RandomFloats(s.k * s.n, 2);
  cpu_kernels::RoundToBf16(a.data(), s.m * s.k, a.data());
  cpu_kernels::RoundToBf16(b.data(), s.k * s.n, b.data());
  std::vector<uint16_t> a_packed(a.size());
  std::vector<uint16_t> b_packed(b.size());
  cpu_kernels::PackBf16(a.data(), s.m * s.k, a_packed.data());
  cpu_kernels::PackBf16(b.data(), s.k * s.n, b_packed.data());
  const std::vector<float> before = RandomFloats(s.m * s.n, 3);
  std::vector<float> c = before;
  const bool packed = format == FactorFormat::kBf16;
  const void* a_factor = packed ? static_cast<const void*>(a_packed.data()) : a.data();
  const void* b_factor = packed ? static_cast<const void*>(b_packed.data()) : b.data();
  const absl::Status status = matmul->Multiply(
      {s.m, s.n, s.k, transpose_a, transpose_b, a_factor, b_factor, c.data(), accumulate});
  ASSERT_TRUE(status.ok()) << status;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = accumulate ? before[static_cast<size_t>(i * s.n + j)] : 0.0;
      double size = std::abs(sum);
      for (int64_t p = 0; p < s.k; ++p) {
        const double term =
            double{a[static_cast<size_t>(transpose_a ? p * s.m + i : i * s.k + p)]} *
            double{b[static_cast<size_t>(transpose_b ? j * s.k + p : p * s.n + j)]};
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(c[static_cast<size_t>(i * s.n + j)], sum,
                  static_cast<double>(s.k + 2) * 0x1p-24 * size);
    }
  }
}

void IsTheProductInAllForms(FactorFormat format) {
  const auto matmul = CpuMatmul::Create(format);
  ASSERT_TRUE(matmul.ok()) << matmul.status();
  // Twice: the second time by the primitives that were kept.
  for (int round = 0; round < 2; ++round) {
    for (const Shape& shape : kShapes) {
      for (int form = 0; form < 8; ++form) {
        IsTheProduct(format, shape, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0,
                     matmul->get());
      }
    }
  }
}

TEST(CpuMatmulTest, MultipliesBinary32) { IsTheProductInAllForms(FactorFormat::kFp32); }

TEST(CpuMatmulTest, MultipliesBfloat16) {
  if (!CpuMultipliesBf16()) GTEST_SKIP() << "this machine does not multiply bfloat16 by itself";
  IsTheProductInAllForms(FactorFormat::kBf16);
}

}  // namespace
}  // namespace sangam
