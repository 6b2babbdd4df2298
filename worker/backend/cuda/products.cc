#include "worker/backend/cuda/products.h"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/cuda/bf16.h"
#include "worker/backend/cuda/cuda_status.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/cuda/elementwise.h"
#include "worker/backend/cuda/lane.h"
#include "worker/backend/precision.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

// A job has a few dozen shapes; more are forgotten and asked for again.
constexpr size_t kMaxPlans = 1024;
// Of operands, in bytes: what algorithms may count on.
constexpr uint32_t kAlignment = 16;
// Of parts of the scratch memory, in bytes.
constexpr int64_t kPartAlignment = 256;

// What NVIDIA recommends from Hopper on, and before it.
constexpr int64_t kWorkspaceBytesHopper = int64_t{32} << 20;
constexpr int64_t kWorkspaceBytes = int64_t{4} << 20;
constexpr int kHopper = 9;

// Sums of such lengths are cut evenly, whatever the parts are.
constexpr int64_t kEvenLength = 256;

struct Formats {
  cudaDataType_t factors;
  cublasComputeType_t compute;
};

Formats FormatsOf(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return {CUDA_R_16BF, CUBLAS_COMPUTE_32F};
    case Precision::kTf32:
      return {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    case Precision::kFp32:
      break;
  }
  // No tensor cores: they have no binary32 factors.
  return {CUDA_R_32F, CUBLAS_COMPUTE_32F};
}

bool IsAligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kAlignment == 0; }

int64_t PartBytes(int64_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

int64_t FloatBytes(ConstMatrix matrix) {
  return matrix.size() * static_cast<int64_t>(sizeof(float));
}

int64_t InnerSize(const GemmArguments& arguments) {
  return arguments.transpose_a ? arguments.a.rows : arguments.a.cols;
}

// An object of cuBLASLt's, with the function that ends it.
template <typename T>
struct Destroy {
  cublasStatus_t (*destroy)(T*);
  void operator()(T* object) const { destroy(object); }
};
template <typename T>
using Owned = std::unique_ptr<T, Destroy<T>>;
using OwnedLayout = Owned<cublasLtMatrixLayoutOpaque_t>;

// A row-major matrix without gaps.
absl::StatusOr<OwnedLayout> MakeLayout(cudaDataType_t type, int64_t rows, int64_t cols) {
  cublasLtMatrixLayout_t layout = nullptr;
  RETURN_IF_ERROR(
      CublasStatus(cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(cols),
                                              static_cast<uint64_t>(rows), cols),
                   "a matrix layout"));
  return OwnedLayout(layout, {cublasLtMatrixLayoutDestroy});
}

template <typename T>
absl::Status Set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                 const T& value) {
  return CublasStatus(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
                      "an attribute of a product");
}

template <typename T>
absl::Status Set(cublasLtMatmulPreference_t preference,
                 cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  return CublasStatus(
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
      "an attribute of a choice");
}

}  // namespace

// cuBLAS' a and b are our b and a.
struct CudaProducts::Plan {
  Owned<cublasLtMatmulDescOpaque_t> operation{nullptr, {cublasLtMatmulDescDestroy}};
  OwnedLayout a{nullptr, {cublasLtMatrixLayoutDestroy}};
  OwnedLayout b{nullptr, {cublasLtMatrixLayoutDestroy}};
  OwnedLayout c{nullptr, {cublasLtMatrixLayoutDestroy}};
  bool adds_bias = false;
  cublasLtMatmulAlgo_t algorithm = {};
};

// Of the parts of scratch memory that operands are copied to, in bytes; 0: it is used where it is.
struct CudaProducts::CopySizes {
  int64_t a = 0;
  int64_t b = 0;
  int64_t c = 0;
  int64_t bias = 0;
  int64_t total() const { return a + b + c + bias; }
};

struct CudaProducts::Operands {
  const void* a = nullptr;
  const void* b = nullptr;
  float* c = nullptr;
  const float* bias = nullptr;
};

CudaProducts::CudaProducts(CudaLane* lane, Precision precision)
    : lane_(lane), precision_(precision), operands_(lane) {}

CudaProducts::~CudaProducts() {
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

absl::StatusOr<std::unique_ptr<CudaProducts>> CudaProducts::Create(CudaLane* lane,
                                                                   Precision precision) {
  auto products = absl::WrapUnique(new CudaProducts(lane, precision));
  RETURN_IF_ERROR(CublasStatus(cublasLtCreate(&products->handle_), "start"));
  ASSIGN_OR_RETURN(products->workspace_,
                   DeviceBuffer::Allocate(lane->compute_major() >= kHopper ? kWorkspaceBytesHopper
                                                                           : kWorkspaceBytes));
  return products;
}

absl::Status CudaProducts::Multiply(const GemmArguments& arguments) {
  if (InnerSize(arguments) == 0) {
    return lane_->rehearses() ? absl::OkStatus() : FillEmptySum(arguments);
  }
  ASSIGN_OR_RETURN(const Plan* plan, PlanFor(arguments));
  if (lane_->rehearses()) return operands_.Get(CopySizesOf(arguments).total()).status();
  ASSIGN_OR_RETURN(const Operands operands, Prepare(arguments));
  RETURN_IF_ERROR(Run(*plan, arguments, operands));
  if (!plan->adds_bias) {
    const Matrix c = {operands.c, arguments.c.rows, arguments.c.cols};
    RETURN_IF_ERROR(Finish(arguments.epilogue, arguments.bias.data, c));
  }
  if (operands.c == arguments.c.data) return absl::OkStatus();
  return lane_->Check(
      cudaMemcpyAsync(arguments.c.data, operands.c, static_cast<size_t>(FloatBytes(arguments.c)),
                      cudaMemcpyDeviceToDevice, lane_->compute()),
      "gemm");
}

absl::Status CudaProducts::FillEmptySum(const GemmArguments& arguments) {
  if (arguments.accumulate) return absl::OkStatus();
  RETURN_IF_ERROR(
      lane_->Check(cudaMemsetAsync(arguments.c.data, 0,
                                   static_cast<size_t>(FloatBytes(arguments.c)), lane_->compute()),
                   "gemm"));
  return Finish(arguments.epilogue, arguments.bias.data, arguments.c);
}

absl::Status CudaProducts::Finish(Epilogue epilogue, const float* bias, Matrix c) {
  switch (epilogue) {
    case Epilogue::kNone:
      break;
    case Epilogue::kBias:
      return lane_->Check(cuda_kernels::AddBias(lane_->compute(), bias, c), "gemm's bias");
    case Epilogue::kBiasRelu:
      return lane_->Check(cuda_kernels::AddBiasRelu(lane_->compute(), bias, c), "gemm's bias");
  }
  return absl::OkStatus();
}

// cuBLAS adds the bias where nothing else is wanted. Of its other epilogues
//   ReLU is max(x, 0), which does not promise that a NaN stays one: a model that diverges would
//     look healthy. Our own kernel adds the bias and keeps NaN in one pass;
//   GELU is the approximation by tanh, and ours is exact.
absl::StatusOr<const CudaProducts::Plan*> CudaProducts::PlanFor(const GemmArguments& arguments) {
  const Key key = {arguments.c.rows,      arguments.c.cols,
                   InnerSize(arguments),  arguments.transpose_a,
                   arguments.transpose_b, arguments.epilogue == Epilogue::kBias};
  auto known = plans_.find(key);
  if (known == plans_.end()) {
    if (lane_->records()) return CudaLane::CannotRecord("a product of a new shape");
    ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, MakePlan(key));
    if (plans_.size() >= kMaxPlans) plans_.clear();
    known = plans_.emplace(key, std::move(plan)).first;
  }
  return known->second.get();
}

absl::StatusOr<std::unique_ptr<CudaProducts::Plan>> CudaProducts::MakePlan(const Key& key) {
  const auto [m, n, k, transpose_a, transpose_b, bias] = key;
  const Formats formats = FormatsOf(precision_);
  auto plan = std::make_unique<Plan>();
  cublasLtMatmulDesc_t operation = nullptr;
  RETURN_IF_ERROR(
      CublasStatus(cublasLtMatmulDescCreate(&operation, formats.compute, CUDA_R_32F), "a product"));
  plan->operation.reset(operation);
  const cublasOperation_t of_a = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t of_b = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  RETURN_IF_ERROR(Set(operation, CUBLASLT_MATMUL_DESC_TRANSA, of_a));
  RETURN_IF_ERROR(Set(operation, CUBLASLT_MATMUL_DESC_TRANSB, of_b));
  ASSIGN_OR_RETURN(plan->a, MakeLayout(formats.factors, transpose_b ? n : k, transpose_b ? k : n));
  ASSIGN_OR_RETURN(plan->b, MakeLayout(formats.factors, transpose_a ? k : m, transpose_a ? m : k));
  ASSIGN_OR_RETURN(plan->c, MakeLayout(CUDA_R_32F, m, n));
  // The choice looks at the alignment of the bias, which is not known yet: the least of all.
  const void* const bias_somewhere = static_cast<std::byte*>(workspace_.data()) + kAlignment;
  RETURN_IF_ERROR(Set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_somewhere));
  RETURN_IF_ERROR(Set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_32F}));
  // Some shapes are not to be had with a bias: then our own kernel adds it.
  for (const bool adds_bias : {true, false}) {
    if (adds_bias && !bias) continue;
    plan->adds_bias = adds_bias;
    RETURN_IF_ERROR(Set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
                        adds_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT));
    ASSIGN_OR_RETURN(const bool found, Choose(plan.get(), k));
    if (found) return plan;
  }
  return absl::InternalError(absl::StrCat("cuBLAS: no algorithm for a product of ", m, " x ", k,
                                          " and ", k, " x ", n, " (m x k, k x n)"));
}

absl::StatusOr<bool> CudaProducts::Choose(Plan* plan, int64_t k) {
  cublasLtMatmulPreference_t preference = nullptr;
  RETURN_IF_ERROR(CublasStatus(cublasLtMatmulPreferenceCreate(&preference), "a choice"));
  const Owned<cublasLtMatmulPreferenceOpaque_t> owned(preference,
                                                      {cublasLtMatmulPreferenceDestroy});
  RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                      static_cast<uint64_t>(workspace_.bytes())));
  for (const cublasLtMatmulPreferenceAttributes_t attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    RETURN_IF_ERROR(Set(preference, attribute, kAlignment));
  }
  // Parts of a sum that are computed beside one another are to be added in a pass of its own, in
  // their order, and not by whoever comes first. Where they cannot be equal there must be none:
  // versions 12 and 13 are known to leave out what remains at the end for some shapes.
  const uint32_t in_parts =
      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  const uint32_t as_one = CUBLASLT_REDUCTION_SCHEME_NONE;
  RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                      k % kEvenLength == 0 ? in_parts : as_one));
  cublasLtMatmulHeuristicResult_t best = {};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan->operation.get(), plan->a.get(), plan->b.get(),
                                     plan->c.get(), plan->c.get(), preference, 1, &best, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) {
    return false;
  }
  if (status != CUBLAS_STATUS_SUCCESS) RETURN_IF_ERROR(lane_->Synchronize(lane_->compute()));
  RETURN_IF_ERROR(CublasStatus(status, "choosing an algorithm"));
  if (best.state != CUBLAS_STATUS_SUCCESS) return false;
  plan->algorithm = best.algo;
  return true;
}

CudaProducts::CopySizes CudaProducts::CopySizesOf(const GemmArguments& arguments) const {
  const bool packs = precision_ == Precision::kBf16;
  const auto factor_bytes = [packs](ConstMatrix factor) {
    if (packs) return PartBytes(factor.size() * static_cast<int64_t>(sizeof(uint16_t)));
    return IsAligned(factor.data) ? int64_t{0} : PartBytes(FloatBytes(factor));
  };
  const bool copies_bias = arguments.epilogue != Epilogue::kNone && !IsAligned(arguments.bias.data);
  CopySizes sizes;
  sizes.a = factor_bytes(arguments.a);
  sizes.b = factor_bytes(arguments.b);
  sizes.c = IsAligned(arguments.c.data) ? 0 : PartBytes(FloatBytes(arguments.c));
  sizes.bias = copies_bias ? PartBytes(FloatBytes(arguments.bias)) : 0;
  return sizes;
}

absl::StatusOr<CudaProducts::Operands> CudaProducts::Prepare(const GemmArguments& arguments) {
  const bool packs = precision_ == Precision::kBf16;
  const CopySizes sizes = CopySizesOf(arguments);
  ASSIGN_OR_RETURN(void* const scratch, operands_.Get(sizes.total()));
  auto* part = static_cast<std::byte*>(scratch);

  const auto copy = [this](const float* from, void* to, ConstMatrix size) {
    return lane_->Check(cudaMemcpyAsync(to, from, static_cast<size_t>(FloatBytes(size)),
                                        cudaMemcpyDeviceToDevice, lane_->compute()),
                        "gemm's aligned copy");
  };
  const auto make_factor = [&](ConstMatrix factor, int64_t bytes,
                               const void** data) -> absl::Status {
    *data = bytes == 0 ? static_cast<const void*>(factor.data) : part;
    if (bytes == 0) return absl::OkStatus();
    auto* const to = std::exchange(part, part + bytes);
    if (!packs) return copy(factor.data, to, factor);
    return lane_->Check(cuda_kernels::PackBf16(lane_->compute(), factor.data, factor.size(),
                                               reinterpret_cast<uint16_t*>(to)),
                        "gemm's rounded factors");
  };
  Operands operands;
  RETURN_IF_ERROR(make_factor(arguments.a, sizes.a, &operands.a));
  RETURN_IF_ERROR(make_factor(arguments.b, sizes.b, &operands.b));
  operands.c = arguments.c.data;
  if (sizes.c > 0) {
    operands.c = reinterpret_cast<float*>(std::exchange(part, part + sizes.c));
    if (arguments.accumulate) RETURN_IF_ERROR(copy(arguments.c.data, operands.c, arguments.c));
  }
  operands.bias = arguments.bias.data;
  if (sizes.bias > 0) {
    operands.bias = reinterpret_cast<float*>(part);
    RETURN_IF_ERROR(copy(arguments.bias.data, part, arguments.bias));
  }
  return operands;
}

absl::Status CudaProducts::Run(const Plan& plan, const GemmArguments& arguments,
                               const Operands& operands) {
  if (plan.adds_bias) {
    RETURN_IF_ERROR(Set(plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias));
  }
  const float alpha = 1;
  const float beta = arguments.accumulate ? 1 : 0;
  const cublasStatus_t status = cublasLtMatmul(
      handle_, plan.operation.get(), &alpha, operands.b, plan.a.get(), operands.a, plan.b.get(),
      &beta, operands.c, plan.c.get(), operands.c, plan.c.get(), &plan.algorithm, workspace_.data(),
      static_cast<size_t>(workspace_.bytes()), lane_->compute());
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  // cuBLAS has a CUDA runtime of its own, whose last error is not ours: a device that has failed is
  // asked itself.
  if (!lane_->records()) RETURN_IF_ERROR(lane_->Synchronize(lane_->compute()));
  return CublasStatus(
      status, absl::StrCat("gemm of ", arguments.c.rows, " x ", InnerSize(arguments), " and ",
                           InnerSize(arguments), " x ", arguments.c.cols));
}

}  // namespace sangam
