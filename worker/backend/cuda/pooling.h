#ifndef SANGAM_WORKER_BACKEND_CUDA_POOLING_H_
#define SANGAM_WORKER_BACKEND_CUDA_POOLING_H_

#include <cuda_runtime.h>

#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

// As in Backend; arguments are checked there. NaN is the largest of all. Each element of a result
// is gathered by one thread, over the window or over the windows in their order.
namespace sangam::cuda_kernels {

cudaError_t MaxPool2d(cudaStream_t stream, const WindowShape& shape, ConstMatrix in, float* out);

cudaError_t MaxPool2dBackward(cudaStream_t stream, const WindowShape& shape, ConstMatrix in,
                              const float* out, const float* output_gradient,
                              float* input_gradient);

cudaError_t AveragePool2d(cudaStream_t stream, const WindowShape& shape, ConstMatrix in,
                          float* out);

cudaError_t AveragePool2dBackward(cudaStream_t stream, const WindowShape& shape,
                                  ConstMatrix output_gradient, float* input_gradient);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_POOLING_H_
