#ifndef SANGAM_WORKER_BACKEND_CUDA_BATCH_NORM_H_
#define SANGAM_WORKER_BACKEND_CUDA_BATCH_NORM_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/views.h"

// As in Backend; arguments are checked there. Sums over rows are in double, as on the CPU: images
// have so many pixels that single precision would lose digits. `scratch`: see sums.h.
namespace sangam::cuda_kernels {

cudaError_t ColumnMoments(cudaStream_t stream, ConstMatrix in, void* scratch, float* mean,
                          float* variance);
size_t ColumnMomentsScratchBytes(int64_t rows, int64_t cols);

// `out` may be `in`.
cudaError_t NormalizeColumns(cudaStream_t stream, ConstMatrix in, const float* mean,
                             const float* variance, float epsilon, const float* gain,
                             const float* bias, float* out);

cudaError_t BatchNormSums(cudaStream_t stream, ConstMatrix in, const float* mean,
                          const float* variance, float epsilon, const float* output_gradient,
                          void* scratch, float* sums);
size_t BatchNormSumsScratchBytes(int64_t rows, int64_t cols);

// `input_gradient` may be `in` or `output_gradient`.
cudaError_t BatchNormBackward(cudaStream_t stream, ConstMatrix in, const float* mean,
                              const float* variance, float epsilon, const float* gain,
                              const float* sums, const float* output_gradient,
                              float* input_gradient);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_BATCH_NORM_H_
