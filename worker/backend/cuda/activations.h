#ifndef SANGAM_WORKER_BACKEND_CUDA_ACTIVATIONS_H_
#define SANGAM_WORKER_BACKEND_CUDA_ACTIVATIONS_H_

#include <cuda_runtime.h>

#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

// As Backend::Activate and ActivateBackward; arguments are checked there. The output may be an
// input.
namespace sangam::cuda_kernels {

cudaError_t Activate(cudaStream_t stream, Activation activation, ConstMatrix in, float* out);

cudaError_t ActivateBackward(cudaStream_t stream, Activation activation, const float* kept,
                             ConstMatrix output_gradient, float* input_gradient);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_ACTIVATIONS_H_
