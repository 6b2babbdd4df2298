// The functions of cuBLAS.

#include "tests/cuda_on_cpu/errors.h"
#include "tests/cuda_on_cpu/include/cublas_v2.h"
#include "tests/cuda_on_cpu/include/cuda_runtime_api.h"
#include "tests/cuda_on_cpu/products.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

namespace cuda_on_cpu {
namespace {

// How much of a workspace a product uses; the real ones' need is not known outside.
constexpr size_t kUsedWorkspaceBytes = size_t{64} << 10;

struct Strides {
  long long a = 0, b = 0, c = 0;
  int batch = 1;
};

struct Matrix {
  const void* data;
  cudaDataType type;
  int ld;
};

bool IsTransposed(cublasOperation_t operation) { return operation != CUBLAS_OP_N; }

bool IsOperation(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

Operand MakeOperand(const Matrix& matrix, int64_t rows, int64_t cols, bool transposed,
                    long long stride) {
  return {matrix.data, matrix.type, transposed ? cols : rows, transposed ? rows : cols,
          matrix.ld,   stride};
}

Factor MakeFactor(const cublasContext& handle, const void* value) {
  const auto* number = static_cast<const float*>(value);
  if (handle.pointers == CUBLAS_POINTER_MODE_DEVICE) return {1, number};
  return {*number, nullptr};
}

cublasStatus_t Gemm(const char* name, cublasHandle_t handle, cublasOperation_t transa,
                    cublasOperation_t transb, int m, int n, int k, const void* alpha,
                    const Matrix& a, const Matrix& b, const void* beta, const Matrix& c,
                    const Strides& strides, cublasComputeType_t compute) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!IsOperation(transa) || !IsOperation(transb) || alpha == nullptr || beta == nullptr ||
      m < 0 || n < 0 || k < 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_PEDANTIC &&
      compute != CUBLAS_COMPUTE_32F_FAST_TF32) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  Product product;
  product.transpose_a = IsTransposed(transa);
  product.transpose_b = IsTransposed(transb);
  product.a = MakeOperand(a, m, k, product.transpose_a, strides.a);
  product.b = MakeOperand(b, k, n, product.transpose_b, strides.b);
  product.c = MakeOperand(c, m, n, false, strides.c);
  product.d = product.c;
  product.batch = strides.batch;
  product.alpha = MakeFactor(*handle, alpha);
  product.beta = MakeFactor(*handle, beta);
  product.tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32 ||
                 (compute == CUBLAS_COMPUTE_32F && handle->math == CUBLAS_TF32_TENSOR_OP_MATH);
  product.workspace = handle->workspace;
  if (handle->workspace_bytes >= kUsedWorkspaceBytes) {
    product.workspace_bytes = kUsedWorkspaceBytes;
  }
  return PutProduct(name, product, handle->stream);
}

}  // namespace
}  // namespace cuda_on_cpu

using cuda_on_cpu::Gemm;

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unknown cuBLAS status";
}

const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (cuda_on_cpu::Ready() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  if (version == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUDART_VERSION * 10;
  return CUBLAS_STATUS_SUCCESS;
}

// Also takes the workspace away.
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  handle->workspace = nullptr;
  handle->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (stream == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  constexpr uintptr_t kAlignment = 256;
  if (reinterpret_cast<uintptr_t>(workspace) % kAlignment != 0) return CUBLAS_STATUS_INVALID_VALUE;
  handle->workspace = workspace;
  handle->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->math = static_cast<cublasMath_t>(
      mode & ~static_cast<int>(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (mode != CUBLAS_POINTER_MODE_HOST && mode != CUBLAS_POINTER_MODE_DEVICE) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k, const float* alpha,
                           const float* a, int lda, const float* b, int ldb, const float* beta,
                           float* c, int ldc) {
  return Gemm("cublasSgemm", handle, transa, transb, m, n, k, alpha, {a, CUDA_R_32F, lda},
              {b, CUDA_R_32F, ldb}, beta, {c, CUDA_R_32F, ldc}, {}, CUBLAS_COMPUTE_32F);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                         cublasOperation_t transb, int m, int n, int k,
                                         const float* alpha, const float* a, int lda,
                                         long long int stride_a, const float* b, int ldb,
                                         long long int stride_b, const float* beta, float* c,
                                         int ldc, long long int stride_c, int batch_count) {
  return Gemm("cublasSgemmStridedBatched", handle, transa, transb, m, n, k, alpha,
              {a, CUDA_R_32F, lda}, {b, CUDA_R_32F, ldb}, beta, {c, CUDA_R_32F, ldc},
              {stride_a, stride_b, stride_c, batch_count}, CUBLAS_COMPUTE_32F);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t) {
  return Gemm("cublasGemmEx", handle, transa, transb, m, n, k, alpha, {a, a_type, lda},
              {b, b_type, ldb}, beta, {c, c_type, ldc}, {}, compute);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType a_type,
                                          int lda, long long int stride_a, const void* b,
                                          cudaDataType b_type, int ldb, long long int stride_b,
                                          const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long int stride_c, int batch_count,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  return Gemm("cublasGemmStridedBatchedEx", handle, transa, transb, m, n, k, alpha,
              {a, a_type, lda}, {b, b_type, ldb}, beta, {c, c_type, ldc},
              {stride_a, stride_b, stride_c, batch_count}, compute);
}
