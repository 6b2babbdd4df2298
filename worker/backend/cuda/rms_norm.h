#ifndef SANGAM_WORKER_BACKEND_CUDA_RMS_NORM_H_
#define SANGAM_WORKER_BACKEND_CUDA_RMS_NORM_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/views.h"

// As in Backend; arguments are checked there, no output overlaps another matrix. `scratch`: see
// sums.h.
namespace sangam::cuda_kernels {

cudaError_t RmsNorm(cudaStream_t stream, ConstMatrix in, const float* gain, float epsilon,
                    float* out, float* inverse_rms);

cudaError_t RmsNormBackward(cudaStream_t stream, ConstMatrix in, const float* gain,
                            const float* inverse_rms, const float* output_gradient,
                            float* input_gradient);

cudaError_t RmsNormGainGradient(cudaStream_t stream, ConstMatrix in, const float* inverse_rms,
                                const float* output_gradient, bool accumulate, void* scratch,
                                float* gain_gradient);
size_t RmsNormGainGradientScratchBytes(int64_t rows, int64_t cols);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_RMS_NORM_H_
