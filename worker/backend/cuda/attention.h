#ifndef SANGAM_WORKER_BACKEND_CUDA_ATTENTION_H_
#define SANGAM_WORKER_BACKEND_CUDA_ATTENTION_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/precision.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {

// As in Backend; arguments are checked there. Tiles of queries meet tiles of keys in shared memory,
// never a square of scores; future positions are left out of every sum.
//
// With Precision::kBf16 the factors of all products are rounded first: queries, keys, values and
// the output's gradient, and the exponentials and score gradients that are multiplied by them. All
// other precisions are binary32 throughout.
cudaError_t CausalAttention(cudaStream_t stream, const AttentionShape& shape, Precision precision,
                            ConstMatrix qkv, float* out, float* log_sum);

// Computes the probabilities anew from `log_sum`. scratch: as many bytes as the function below
// says, aligned to 4.
cudaError_t CausalAttentionBackward(cudaStream_t stream, const AttentionShape& shape,
                                    Precision precision, ConstMatrix qkv, const float* out,
                                    const float* log_sum, const float* output_gradient,
                                    void* scratch, float* qkv_gradient);

// rows: of qkv.
size_t CausalAttentionBackwardScratchBytes(const AttentionShape& shape, int64_t rows);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_ATTENTION_H_
