#include "tests/cuda_on_cpu/products.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/cuda_on_cpu/errors.h"
#include "tests/cuda_on_cpu/garbage.h"
#include "tests/cuda_on_cpu/host_memory.h"
#include "tests/cuda_on_cpu/include/cuda_bf16.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/streams.h"

// One body for each kind of vector that the machine may have; all give the same bits.
#if defined(__x86_64__) && !defined(__clang__)
#define FOR_EACH_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_VECTOR
#endif

namespace cuda_on_cpu {
namespace {

// How much of the inner index is packed at a time.
constexpr int64_t kInnerBlock = 256;

float RoundToTf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7f800000u) != 0x7f800000u) {
    bits = (bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu;
  }
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float Load(const Operand& operand, int64_t index) {
  if (operand.type == CUDA_R_32F) return static_cast<const float*>(operand.data)[index];
  return __bfloat162float(static_cast<const __nv_bfloat16*>(operand.data)[index]);
}

void Store(const Operand& operand, int64_t index, float value) {
  void* const data = const_cast<void*>(operand.data);
  if (operand.type == CUDA_R_32F) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<__nv_bfloat16*>(data)[index] = __float2bfloat16_rn(value);
  }
}

// Inner indices [first, first + count) of op(a)'s rows or op(b)'s columns, one after the other:
// packed[p * outer + i].
void Pack(const Operand& operand, int64_t start, bool inner_is_column, int64_t outer, int64_t first,
          int64_t count, bool tf32, float* packed) {
  const int64_t inner_step = inner_is_column ? operand.ld : 1;
  const int64_t outer_step = inner_is_column ? 1 : operand.ld;
  for (int64_t i = 0; i < outer; ++i) {
    const int64_t at = start + i * outer_step + first * inner_step;
    for (int64_t p = 0; p < count; ++p) {
      const float value = Load(operand, at + p * inner_step);
      packed[p * outer + i] = tf32 && operand.type == CUDA_R_32F ? RoundToTf32(value) : value;
    }
  }
}

// sums[j * rows + i] += x[p * rows + i] * y[p * cols + j], p in order.
FOR_EACH_VECTOR void Accumulate(int64_t rows, int64_t cols, int64_t count, const float* x,
                                const float* y, float* sums) {
  for (int64_t j = 0; j < cols; ++j) {
    float* __restrict__ const sum = sums + j * rows;
    int64_t p = 0;
    for (; p + 4 <= count; p += 4) {
      const float* const x0 = x + p * rows;
      const float* const x1 = x0 + rows;
      const float* const x2 = x1 + rows;
      const float* const x3 = x2 + rows;
      const float y0 = y[p * cols + j], y1 = y[(p + 1) * cols + j];
      const float y2 = y[(p + 2) * cols + j], y3 = y[(p + 3) * cols + j];
      for (int64_t i = 0; i < rows; ++i) {
        sum[i] = (((sum[i] + x0[i] * y0) + x1[i] * y1) + x2[i] * y2) + x3[i] * y3;
      }
    }
    for (; p < count; ++p) {
      const float* const x0 = x + p * rows;
      const float y0 = y[p * cols + j];
      for (int64_t i = 0; i < rows; ++i) sum[i] += x0[i] * y0;
    }
  }
}

// One matrix of the batch.
class OneProduct {
 public:
  OneProduct(const Product& product, int64_t index)
      : product_(product),
        index_(index),
        m_(product.m()),
        n_(product.n()),
        k_(product.summed >= 0 ? product.summed : product.k()) {}

  void Run() {
    Sum();
    Finish();
  }

 private:
  void Sum() {
    // The longer side is the inner loop's.
    by_rows_ = m_ >= n_;
    const bool sums_bias =
        product_.bias_use == BiasUse::kSumA || product_.bias_use == BiasUse::kSumB;
    sums_.assign(static_cast<size_t>(m_ * n_), 0.0f);
    std::vector<float> packed_a(static_cast<size_t>(m_ * std::min(k_, kInnerBlock)));
    std::vector<float> packed_b(static_cast<size_t>(n_ * std::min(k_, kInnerBlock)));
    float* const bias = product_.bias + index_ * product_.bias_stride;
    if (sums_bias) std::fill_n(bias, product_.bias_use == BiasUse::kSumA ? m_ : n_, 0.0f);
    for (int64_t first = 0; first < k_; first += kInnerBlock) {
      const int64_t count = std::min(kInnerBlock, k_ - first);
      Pack(product_.a, index_ * product_.a.stride, !product_.transpose_a, m_, first, count,
           product_.tf32, packed_a.data());
      Pack(product_.b, index_ * product_.b.stride, product_.transpose_b, n_, first, count,
           product_.tf32, packed_b.data());
      if (by_rows_) {
        Accumulate(m_, n_, count, packed_a.data(), packed_b.data(), sums_.data());
      } else {
        Accumulate(n_, m_, count, packed_b.data(), packed_a.data(), sums_.data());
      }
      if (product_.bias_use == BiasUse::kSumA) AddUp(packed_a, m_, count, bias);
      if (product_.bias_use == BiasUse::kSumB) AddUp(packed_b, n_, count, bias);
    }
  }

  static void AddUp(const std::vector<float>& packed, int64_t outer, int64_t count, float* sums) {
    for (int64_t p = 0; p < count; ++p) {
      for (int64_t i = 0; i < outer; ++i) sums[i] += packed[static_cast<size_t>(p * outer + i)];
    }
  }

  void Finish() {
    const float alpha = product_.alpha.Get(), beta = product_.beta.Get();
    const float* const bias = product_.bias + index_ * product_.bias_stride;
    for (int64_t j = 0; j < n_; ++j) {
      for (int64_t i = 0; i < m_; ++i) {
        float value = alpha * sums_[static_cast<size_t>(by_rows_ ? j * m_ + i : i * n_ + j)];
        // With beta 0 the old values are not read: they may be NaN.
        if (beta != 0) {
          value += beta * Load(product_.c, index_ * product_.c.stride + j * product_.c.ld + i);
        }
        if (product_.bias_use == BiasUse::kAdd) value += bias[i];
        // As a device's: what is not greater than 0 becomes 0, a NaN too.
        if (product_.relu && !(value > 0)) value = 0;
        Store(product_.d, index_ * product_.d.stride + j * product_.d.ld + i, value);
      }
    }
  }

  const Product& product_;
  const int64_t index_;
  const int64_t m_, n_, k_;
  bool by_rows_ = true;
  std::vector<float> sums_;
};

bool TypeFits(const Operand& operand) {
  return operand.type == CUDA_R_32F || operand.type == CUDA_R_16BF;
}

bool Reachable(const void* pointer, size_t bytes) {
  return DeviceMemory::Get().Contains(pointer, bytes) ||
         PinnedMemory::Get().Contains(pointer, bytes);
}

void CheckReachable(const char* name, const char* what, const void* pointer, int64_t elements,
                    size_t element_bytes) {
  const size_t bytes = static_cast<size_t>(elements) * element_bytes;
  if (Reachable(pointer, bytes)) return;
  Fail(
      "%s: %s is %p, and the %zu bytes from there are not all in device memory or pinned memory of "
      "the host",
      name, what, pointer, bytes);
}

void CheckReachable(const char* name, const char* what, const Operand& operand, int64_t batch) {
  CheckReachable(name, what, operand.data, operand.extent(batch), ElementBytes(operand.type));
}

int64_t BiasElements(const Product& product) {
  const int64_t size = product.bias_use == BiasUse::kSumB ? product.n() : product.m();
  return (product.batch - 1) * product.bias_stride + size;
}

}  // namespace

size_t ElementBytes(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

cublasStatus_t CheckShape(const Product& product) {
  const int64_t m = product.m(), n = product.n(), k = product.k();
  const Operand& a = product.a;
  const Operand& b = product.b;
  if (m < 0 || n < 0 || k < 0 || product.batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
  const bool sizes_fit = (product.transpose_a ? a.cols : a.rows) == m &&
                         (product.transpose_b ? b.rows : b.cols) == n &&
                         (product.transpose_b ? b.cols : b.rows) == k && product.c.rows == m &&
                         product.c.cols == n;
  if (!sizes_fit) return CUBLAS_STATUS_INVALID_VALUE;
  for (const Operand* operand : {&a, &b, &product.c, &product.d}) {
    if (operand->ld < std::max<int64_t>(1, operand->rows)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!TypeFits(a) || a.type != b.type || !TypeFits(product.d) ||
      product.c.type != product.d.type || (a.type == CUDA_R_32F && product.d.type != CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

void CheckPointers(const char* name, const Product& product) {
  if (product.k() > 0) {
    CheckReachable(name, "a", product.a, product.batch);
    CheckReachable(name, "b", product.b, product.batch);
  }
  CheckReachable(name, "c", product.c, product.batch);
  CheckReachable(name, "d", product.d, product.batch);
  if (product.bias_use != BiasUse::kNone) {
    CheckReachable(name, "bias", product.bias, BiasElements(product), sizeof(float));
  }
  if (product.workspace_bytes > 0) {
    CheckReachable(name, "workspace", product.workspace,
                   static_cast<int64_t>(product.workspace_bytes), 1);
  }
  for (const Factor* factor : {&product.alpha, &product.beta}) {
    if (factor->device != nullptr) CheckReachable(name, "alpha or beta", factor->device, 1, 4);
  }
}

}  // namespace

void RunProduct(const Product& product) {
  FillGarbage(product.workspace, product.workspace_bytes);
  for (int64_t i = 0; i < product.batch; ++i) OneProduct(product, i).Run();
}

cublasStatus_t PutProduct(const char* name, const Product& product, cudaStream_t stream) {
  if (Ready() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  const cublasStatus_t status = CheckShape(product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (product.m() == 0 || product.n() == 0 || product.batch == 0) return CUBLAS_STATUS_SUCCESS;
  CheckPointers(name, product);
  const cudaError_t error = Streams::Get().Put(stream, {name, [product] { RunProduct(product); }});
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace cuda_on_cpu
