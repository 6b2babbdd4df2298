#ifndef SANGAM_WORKER_BACKEND_CPU_GEMM_H_
#define SANGAM_WORKER_BACKEND_CPU_GEMM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/matmul.h"
#include "worker/backend/precision.h"

namespace sangam {

// Whether this machine has instructions that multiply bfloat16, which oneDNN uses.
bool CpuMultipliesBf16();

// Whether oneDNN's kernels here are those for AVX2.
bool OneDnnUsesAvx2();

// Which of oneDNN's kernels multiply here: "AVX2", "AVX512". Others sum in other orders.
std::string OneDnnKernels();

// Matrix products of one lane, by oneDNN's sgemm on the calling thread alone. Not thread-safe; may
// move from thread to thread.
//
// sgemm and not the matmul primitive: with plain (not pre-packed) matrices both run the same
// kernels, and sgemm has beta = 1 without a second pass, no primitives to cache and less to do per
// call. On AVX2 (one thread, 784-512-512-10, 32 rows) forward 77-80 against 64-70 GFLOP/s, weight
// gradients 52-85 against 43-78; at 256 rows equal.
//
// The AVX2 kernels lose up to half of their speed when they walk down a matrix whose rows lie a
// multiple of 2 KiB apart: the lines they touch fall into the same few sets of the cache. Such
// matrices, common because widths are powers of two, are copied in panels with rows a little
// further apart. GFLOP/s of dX = dY W at 256 rows: 512 wide 66 -> 93, 1024: 46 -> 92, 2048: 45 ->
// 80-87; of dW = dY^T X, 512 wide: 64 -> 91.
//
// With Precision::kBf16 and kTf32 the factors are rounded first. Where the machine multiplies such
// numbers (bfloat16 on some), oneDNN's matmul takes them; elsewhere the product of the rounded
// numbers is the usual one: the same meaning, but another order of the sum.
class CpuGemm {
 public:
  explicit CpuGemm(Precision precision = Precision::kFp32);

  // c = op(a) op(b), or +=; the epilogue is left to the caller.
  // REQUIRES: what Backend::Gemm checks.
  absl::Status Multiply(const GemmArguments& arguments);

 private:
  absl::Status ReserveFactors(int64_t size);
  absl::Status MultiplyFloats(const GemmArguments& arguments);
  absl::Status MultiplyRounded(const GemmArguments& arguments);
  absl::Status MultiplyPacked(const GemmArguments& arguments);
  absl::Status MultiplyInPanels(const GemmArguments& arguments, int64_t m, int64_t n, int64_t k);

  Precision precision_;
  bool copy_aliasing_panels_;
  FloatBuffer scratch_;
  FloatBuffer factors_;                // rounded
  std::unique_ptr<CpuMatmul> matmul_;  // where the machine multiplies bfloat16 by itself
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CPU_GEMM_H_
