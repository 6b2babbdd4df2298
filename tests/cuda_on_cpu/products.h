#ifndef TESTS_CUDA_ON_CPU_PRODUCTS_H_
#define TESTS_CUDA_ON_CPU_PRODUCTS_H_

#include <cstddef>
#include <cstdint>

#include "tests/cuda_on_cpu/include/cublas_api.h"

namespace cuda_on_cpu {

// A matrix in memory, by columns.
struct Operand {
  const void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t ld = 0;      // elements between the starts of two columns
  int64_t stride = 0;  // elements between the starts of two matrices of a batch

  // That it touches, in elements.
  int64_t extent(int64_t batch) const { return (batch - 1) * stride + (cols - 1) * ld + rows; }
};

// A factor of the sum: of the host, read now, or of the device, read when the product runs.
struct Factor {
  float value = 1;
  const float* device = nullptr;

  float Get() const { return device != nullptr ? *device : value; }
};

enum class BiasUse {
  kNone,
  kAdd,   // one number for each row of the result
  kSumA,  // becomes the sums of op(a)'s rows
  kSumB,  // becomes the sums of op(b)'s columns
};

// d = alpha op(a) op(b) + beta c, for each matrix of a batch. Sums are fp32, in the order of the
// inner index.
struct Product {
  bool transpose_a = false;
  bool transpose_b = false;
  Operand a, b, c, d;
  int64_t batch = 1;
  bool tf32 = false;  // fp32 factors keep 10 bits of their fraction
  // How many products each sum has in the end; -1: k(). See blas_lt.cc.
  int64_t summed = -1;
  Factor alpha, beta;
  BiasUse bias_use = BiasUse::kNone;
  float* bias = nullptr;
  int64_t bias_stride = 0;
  bool relu = false;
  void* workspace = nullptr;  // left as garbage
  size_t workspace_bytes = 0;

  int64_t m() const { return d.rows; }
  int64_t n() const { return d.cols; }
  int64_t k() const { return transpose_a ? a.rows : a.cols; }
};

size_t ElementBytes(cudaDataType type);

// What cuBLAS itself would refuse: sizes that do not fit, leading dimensions, types.
cublasStatus_t CheckShape(const Product& product);

void RunProduct(const Product& product);

// Checks it and puts it into the stream. Aborts if an operand is not in memory that the device can
// reach; `name` is that of the function.
cublasStatus_t PutProduct(const char* name, const Product& product, cudaStream_t stream);

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_PRODUCTS_H_
