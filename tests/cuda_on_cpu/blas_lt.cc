// The functions of cuBLASLt.

#include <algorithm>
#include <cstring>

#include "tests/cuda_on_cpu/errors.h"
#include "tests/cuda_on_cpu/include/cublasLt.h"
#include "tests/cuda_on_cpu/include/cuda_runtime_api.h"
#include "tests/cuda_on_cpu/products.h"
#include "tests/cuda_on_cpu/streams.h"

struct cublasLtContext {};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType scale_type;
  cublasLtPointerMode_t pointers = CUBLASLT_POINTER_MODE_HOST;
  cublasOperation_t transa = CUBLAS_OP_N;
  cublasOperation_t transb = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int64_t bias_stride = 0;
  cudaDataType bias_type = CUDA_R_32F;
};

struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType type;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
  uint64_t rows;
  uint64_t cols;
  int64_t ld;
  int32_t batch = 1;
  int64_t stride = 0;
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t max_workspace_bytes = 0;
  uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  // Of a, b, c, d.
  uint32_t alignments[4] = {256, 256, 256, 256};
  uint32_t search_mode = 0;
};

namespace cuda_on_cpu {
namespace {

// The one algorithm: wants addresses at multiples of 16 bytes where it was told to expect them, and
// some workspace.
constexpr uint64_t kMagic = 0x6375626c61734c74;
constexpr uint32_t kBestAlignment = 16;
constexpr uint64_t kUsedWorkspaceBytes = uint64_t{64} << 10;

// Where it may cut a sum into parts it does so in multiples of this, and loses what is left over,
// as cuBLASLt of CUDA 12 and 13 does for some shapes.
constexpr int64_t kPartLength = 64;

// In data[] of an algorithm.
enum AlgoWord { kMagicWord, kWorkspaceWord, kAlignmentWord, kSummedWord = kAlignmentWord + 4 };

template <typename T>
cublasStatus_t Set(T* field, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(field, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

Operand MakeOperand(const void* data, const cublasLtMatrixLayoutOpaque_t& layout) {
  return {
      data,      layout.type,  static_cast<int64_t>(layout.rows), static_cast<int64_t>(layout.cols),
      layout.ld, layout.stride};
}

cublasStatus_t SetEpilogue(const cublasLtMatmulDescOpaque_t& desc, Product* product) {
  switch (desc.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      break;
    case CUBLASLT_EPILOGUE_RELU:
      product->relu = true;
      break;
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      product->relu = true;
      product->bias_use = BiasUse::kAdd;
      break;
    case CUBLASLT_EPILOGUE_BIAS:
      product->bias_use = BiasUse::kAdd;
      break;
    case CUBLASLT_EPILOGUE_BGRADA:
      product->bias_use = BiasUse::kSumA;
      break;
    case CUBLASLT_EPILOGUE_BGRADB:
      product->bias_use = BiasUse::kSumB;
      break;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (product->bias_use != BiasUse::kNone && desc.bias_type != CUDA_R_32F) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  product->bias = static_cast<float*>(desc.bias);
  product->bias_stride = desc.bias_stride;
  return CUBLAS_STATUS_SUCCESS;
}

// All but the addresses.
cublasStatus_t MakeProduct(const cublasLtMatmulDescOpaque_t& desc,
                           const cublasLtMatrixLayoutOpaque_t& a,
                           const cublasLtMatrixLayoutOpaque_t& b,
                           const cublasLtMatrixLayoutOpaque_t& c,
                           const cublasLtMatrixLayoutOpaque_t& d, Product* product) {
  for (const auto* layout : {&a, &b, &c, &d}) {
    if (layout->order != CUBLASLT_ORDER_COL) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (layout->batch != d.batch || layout->batch < 1) return CUBLAS_STATUS_INVALID_VALUE;
    if (layout->rows == 0 || layout->cols == 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (desc.scale_type != CUDA_R_32F ||
      (desc.compute != CUBLAS_COMPUTE_32F && desc.compute != CUBLAS_COMPUTE_32F_PEDANTIC &&
       desc.compute != CUBLAS_COMPUTE_32F_FAST_TF32)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  product->transpose_a = desc.transa != CUBLAS_OP_N;
  product->transpose_b = desc.transb != CUBLAS_OP_N;
  product->a = MakeOperand(nullptr, a);
  product->b = MakeOperand(nullptr, b);
  product->c = MakeOperand(nullptr, c);
  product->d = MakeOperand(nullptr, d);
  product->batch = d.batch;
  product->tf32 = desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  return SetEpilogue(desc, product);
}

Factor MakeFactor(const cublasLtMatmulDescOpaque_t& desc, const void* value) {
  const auto* number = static_cast<const float*>(value);
  if (desc.pointers == CUBLASLT_POINTER_MODE_DEVICE) return {1, number};
  return {*number, nullptr};
}

// Where the thread records a graph, cuBLASLt 13.3 chooses no algorithm: it asks for properties of a
// stream that it cannot have then.
bool CanChoose() { return Streams::Get().CheckNoCapture() == cudaSuccess; }

bool IsAligned(const void* pointer, uint64_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

// Whether the addresses are what the algorithm was chosen for.
cublasStatus_t UseAlgorithm(const cublasLtMatmulAlgo_t& algo, size_t workspace_bytes,
                            Product* product) {
  if (algo.data[kMagicWord] != kMagic) return CUBLAS_STATUS_INVALID_VALUE;
  product->workspace_bytes = static_cast<size_t>(algo.data[kWorkspaceWord]);
  if (product->workspace_bytes > workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  const void* const pointers[4] = {product->a.data, product->b.data, product->c.data,
                                   product->d.data};
  for (int i = 0; i < 4; ++i) {
    if (!IsAligned(pointers[i], algo.data[kAlignmentWord + i])) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (!IsAligned(product->workspace, kBestAlignment)) return CUBLAS_STATUS_INVALID_VALUE;
  product->summed = static_cast<int64_t>(algo.data[kSummedWord]);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace cuda_on_cpu

using cuda_on_cpu::Set;

const char* cublasLtGetStatusName(cublasStatus_t status) { return cublasGetStatusName(status); }
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasGetStatusString(status); }
size_t cublasLtGetVersion() { return size_t{CUDART_VERSION} * 10; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (cuda_on_cpu::Ready() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale_type) {
  if (desc == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *desc = new cublasLtMatmulDescOpaque_t{compute, scale_type};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  if (desc == nullptr || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return Set(&desc->compute, value, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return Set(&desc->scale_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return Set(&desc->pointers, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Set(&desc->transa, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Set(&desc->transb, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Set(&desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Set(&desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return Set(&desc->bias_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return Set(&desc->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new cublasLtMatrixLayoutOpaque_t{type, CUBLASLT_ORDER_COL, rows, cols, ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  if (layout == nullptr || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return Set(&layout->type, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return Set(&layout->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return Set(&layout->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return Set(&layout->cols, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return Set(&layout->ld, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return Set(&layout->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return Set(&layout->stride, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  if (preference == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  if (preference == nullptr || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return Set(&preference->search_mode, value, bytes);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return Set(&preference->max_workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return Set(&preference->reduction_schemes, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return Set(&preference->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                 value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a_layout,
    cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t c_layout,
    cublasLtMatrixLayout_t d_layout, cublasLtMatmulPreference_t preference, int requested_count,
    cublasLtMatmulHeuristicResult_t results[], int* returned_count) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (desc == nullptr || a_layout == nullptr || b_layout == nullptr || c_layout == nullptr ||
      d_layout == nullptr || preference == nullptr || requested_count < 1 || results == nullptr ||
      returned_count == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *returned_count = 0;
  if (!cuda_on_cpu::CanChoose()) return CUBLAS_STATUS_INTERNAL_ERROR;
  cuda_on_cpu::Product product;
  cublasStatus_t status =
      cuda_on_cpu::MakeProduct(*desc, *a_layout, *b_layout, *c_layout, *d_layout, &product);
  if (status == CUBLAS_STATUS_SUCCESS) status = cuda_on_cpu::CheckShape(product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  cublasLtMatmulHeuristicResult_t& result = results[0];
  result = {};
  result.workspaceSize = preference->max_workspace_bytes >= cuda_on_cpu::kUsedWorkspaceBytes
                             ? cuda_on_cpu::kUsedWorkspaceBytes
                             : 0;
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1;
  result.algo.data[cuda_on_cpu::kMagicWord] = cuda_on_cpu::kMagic;
  result.algo.data[cuda_on_cpu::kWorkspaceWord] = result.workspaceSize;
  for (int i = 0; i < 4; ++i) {
    result.algo.data[cuda_on_cpu::kAlignmentWord + i] =
        std::clamp(preference->alignments[i], 1u, cuda_on_cpu::kBestAlignment);
  }
  const bool in_parts = preference->reduction_schemes != CUBLASLT_REDUCTION_SCHEME_NONE &&
                        product.k() > cuda_on_cpu::kPartLength;
  const int64_t lost = in_parts ? product.k() % cuda_on_cpu::kPartLength : 0;
  result.algo.data[cuda_on_cpu::kSummedWord] = static_cast<uint64_t>(product.k() - lost);
  *returned_count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (desc == nullptr || a_layout == nullptr || b_layout == nullptr || c_layout == nullptr ||
      d_layout == nullptr || alpha == nullptr || beta == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  cuda_on_cpu::Product product;
  cublasStatus_t status =
      cuda_on_cpu::MakeProduct(*desc, *a_layout, *b_layout, *c_layout, *d_layout, &product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  product.a.data = a;
  product.b.data = b;
  product.c.data = c;
  product.d.data = d;
  product.alpha = cuda_on_cpu::MakeFactor(*desc, alpha);
  product.beta = cuda_on_cpu::MakeFactor(*desc, beta);
  product.workspace = workspace;
  // In place means: the same matrix.
  if (c == d && (c_layout->ld != d_layout->ld || c_layout->type != d_layout->type)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algo == nullptr && !cuda_on_cpu::CanChoose()) return CUBLAS_STATUS_INTERNAL_ERROR;
  if (algo != nullptr) {
    status = cuda_on_cpu::UseAlgorithm(*algo, workspace_bytes, &product);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return cuda_on_cpu::PutProduct("cublasLtMatmul", product, stream);
}
