#ifndef TESTS_CUDA_ON_CPU_PLAIN_PRODUCT_H_
#define TESTS_CUDA_ON_CPU_PLAIN_PRODUCT_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace cuda_on_cpu::tests {

// A product by columns and what it must give, in double precision.
struct PlainProduct {
  PlainProduct(int m, int n, int k, bool transpose_a, bool transpose_b, int seed = 1)
      : m(m),
        n(n),
        k(k),
        transpose_a(transpose_a),
        transpose_b(transpose_b),
        lda(transpose_a ? k : m),
        ldb(transpose_b ? n : k),
        a(Numbers(static_cast<size_t>(m * k), seed)),
        b(Numbers(static_cast<size_t>(k * n), seed + 1)),
        c(Numbers(static_cast<size_t>(m * n), seed + 2)) {}

  static std::vector<float> Numbers(size_t size, int seed) {
    std::vector<float> numbers(size);
    for (size_t i = 0; i < size; ++i) {
      numbers[i] = std::sin(static_cast<float>(i) * 1.7f + static_cast<float>(seed));
    }
    return numbers;
  }

  double A(int i, int p) const {
    return a[static_cast<size_t>(transpose_a ? i * lda + p : p * lda + i)];
  }
  double B(int p, int j) const {
    return b[static_cast<size_t>(transpose_b ? p * ldb + j : j * ldb + p)];
  }

  std::vector<float> Result(float alpha, float beta) const {
    std::vector<float> result(c.size());
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < m; ++i) {
        double sum = 0;
        for (int p = 0; p < k; ++p) sum += A(i, p) * B(p, j);
        const auto at = static_cast<size_t>(j * m + i);
        result[at] = static_cast<float>(alpha * sum + beta * c[at]);
      }
    }
    return result;
  }

  int m, n, k;
  bool transpose_a, transpose_b;
  int lda, ldb;
  std::vector<float> a, b, c;
};

inline void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected,
                       float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << i;
}

}  // namespace cuda_on_cpu::tests

#endif  // TESTS_CUDA_ON_CPU_PLAIN_PRODUCT_H_
