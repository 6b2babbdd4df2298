#ifndef SANGAM_WORKER_BACKEND_CUDA_PRODUCTS_H_
#define SANGAM_WORKER_BACKEND_CUDA_PRODUCTS_H_

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/cuda/lane.h"
#include "worker/backend/cuda/scratch.h"
#include "worker/backend/precision.h"

namespace sangam {

// Matrix products of one lane, by cuBLASLt. Not thread-safe.
//
// cuBLAS chooses an algorithm once for each shape; the choice is kept. It depends on the shape and
// the device alone: every lane has a workspace of its own, all of one size, and operands that do
// not begin at a multiple of 16 bytes are copied to where they do, so that an algorithm that needs
// that is right for all.
//
// cuBLAS has row-major matrices as columns of their transposes: c = a b is computed as c' = b' a'.
//
// With Precision::kBf16 the factors are rounded into scratch memory, and multiplied by the tensor
// cores as they are; with kTf32 the tensor cores round them.
class CudaProducts {
 public:
  // The lane must outlive it. Errors: ResourceExhausted, Internal
  static absl::StatusOr<std::unique_ptr<CudaProducts>> Create(CudaLane* lane, Precision precision);
  ~CudaProducts();

  // c = op(a) op(b), or +=, and the epilogue. REQUIRES: what Backend::Gemm checks; CudaLane::Begin.
  absl::Status Multiply(const GemmArguments& arguments);

  // The memory for copies of operands, whose room rehearsals note.
  CudaScratch* operands() { return &operands_; }

 private:
  struct Plan;
  // m, n, k, transposed a and b, with a bias.
  using Key = std::tuple<int64_t, int64_t, int64_t, bool, bool, bool>;
  struct Operands;
  struct CopySizes;

  CudaProducts(CudaLane* lane, Precision precision);
  absl::StatusOr<const Plan*> PlanFor(const GemmArguments& arguments);
  absl::StatusOr<std::unique_ptr<Plan>> MakePlan(const Key& key);
  // Asks for an algorithm for sums of `k` products; false when there is none.
  absl::StatusOr<bool> Choose(Plan* plan, int64_t k);
  CopySizes CopySizesOf(const GemmArguments& arguments) const;
  absl::StatusOr<Operands> Prepare(const GemmArguments& arguments);
  absl::Status Run(const Plan& plan, const GemmArguments& arguments, const Operands& operands);
  absl::Status FillEmptySum(const GemmArguments& arguments);
  absl::Status Finish(Epilogue epilogue, const float* bias, Matrix c);

  CudaLane* lane_;
  Precision precision_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceBuffer workspace_;
  CudaScratch operands_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_PRODUCTS_H_
