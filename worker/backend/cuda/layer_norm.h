#ifndef SANGAM_WORKER_BACKEND_CUDA_LAYER_NORM_H_
#define SANGAM_WORKER_BACKEND_CUDA_LAYER_NORM_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/views.h"

// As in Backend; arguments are checked there, no output overlaps another matrix. `scratch`: see
// sums.h.
namespace sangam::cuda_kernels {

cudaError_t LayerNorm(cudaStream_t stream, ConstMatrix in, const float* gain, const float* bias,
                      float epsilon, float* out, float* mean, float* inverse_deviation);

cudaError_t LayerNormBackward(cudaStream_t stream, ConstMatrix in, const float* gain,
                              const float* mean, const float* inverse_deviation,
                              const float* output_gradient, float* input_gradient);

cudaError_t LayerNormParameterGradients(cudaStream_t stream, ConstMatrix in, const float* mean,
                                        const float* inverse_deviation,
                                        const float* output_gradient, bool accumulate,
                                        void* scratch, float* gain_gradient, float* bias_gradient);
size_t LayerNormParameterGradientsScratchBytes(int64_t rows, int64_t cols);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_LAYER_NORM_H_
