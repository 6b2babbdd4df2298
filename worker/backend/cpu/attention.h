#ifndef SANGAM_WORKER_BACKEND_CPU_ATTENTION_H_
#define SANGAM_WORKER_BACKEND_CPU_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/precision.h"
#include "worker/backend/views.h"

namespace sangam {

// Causal attention of one lane, head after head. Not thread-safe; may move from thread to thread.
//
// Queries are taken in blocks, and only the keys up to a block's last query are looked at: memory
// and cache see a block of scores, never a square of them. Future positions are left out of every
// sum of a position, not multiplied by 0, so that not even their NaN reach it. The scores of a row
// are summed lane by lane (lanes.h); all other sums go over head width, keys or queries in order.
//
// With Precision::kBf16 and kTf32 the factors of all products are rounded first: queries, keys,
// values and the output's gradient, and the exponentials and score gradients that are multiplied by
// them.
class CpuAttention {
 public:
  explicit CpuAttention(Precision precision = Precision::kFp32) : precision_(precision) {}

  // As in Backend; arguments are checked there.
  absl::Status Forward(const AttentionShape& shape, ConstMatrix qkv, float* out, float* log_sum);
  absl::Status Backward(const AttentionShape& shape, ConstMatrix qkv, const float* out,
                        const float* log_sum, const float* output_gradient, float* qkv_gradient);

 private:
  absl::Status Reserve(int64_t size);
  // `qkv` and `output_gradient` (nullptr: none) as factors: themselves or rounded copies.
  absl::Status MakeFactors(ConstMatrix qkv, const float* output_gradient, const float** qkv_factors,
                           const float** gradient_factors);

  Precision precision_;
  FloatBuffer scratch_;
  FloatBuffer factors_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CPU_ATTENTION_H_
