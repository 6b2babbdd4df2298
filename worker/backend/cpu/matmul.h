#ifndef SANGAM_WORKER_BACKEND_CPU_MATMUL_H_
#define SANGAM_WORKER_BACKEND_CPU_MATMUL_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sangam {

// The number format of a product's factors.
enum class FactorFormat { kFp32, kBf16 };

// One product, c = op(a) op(b) or += it, row-major without gaps.
struct MatmulCall {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  const void* a;
  const void* b;
  float* c;
  bool accumulate;
};

// Matrix products by oneDNN's matmul primitive, whose factors may be of another format than the
// result. Primitives are kept by shape. Not thread-safe; the calling thread's OpenMP team is one
// thread.
class CpuMatmul {
 public:
  static absl::StatusOr<std::unique_ptr<CpuMatmul>> Create(FactorFormat format);
  virtual ~CpuMatmul() = default;

  // m, n, k: at least 1.
  virtual absl::Status Multiply(const MatmulCall& call) = 0;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CPU_MATMUL_H_
