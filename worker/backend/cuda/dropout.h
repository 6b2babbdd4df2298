#ifndef SANGAM_WORKER_BACKEND_CUDA_DROPOUT_H_
#define SANGAM_WORKER_BACKEND_CUDA_DROPOUT_H_

#include <cuda_runtime.h>

#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {

// As Backend::Dropout, with the CPU's bits; arguments are checked there. `out` may be `in`.
cudaError_t Dropout(cudaStream_t stream, const DropoutAddress& address, float rate, ConstMatrix in,
                    float* out);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_DROPOUT_H_
