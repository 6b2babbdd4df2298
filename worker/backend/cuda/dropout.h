#ifndef SANGAM_WORKER_BACKEND_CUDA_DROPOUT_H_
#define SANGAM_WORKER_BACKEND_CUDA_DROPOUT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/backend/cuda/philox_device.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {

// What an address comes to for a kernel.
struct DropoutNumbers {
  RandomFamily family = {};
  uint64_t first_minor = 0;  // of row 0
};
DropoutNumbers NumbersOf(const DropoutAddress& address);

// As Backend::Dropout, with the CPU's bits; arguments are checked there. `out` may be `in`.
cudaError_t Dropout(cudaStream_t stream, const DropoutAddress& address, float rate, ConstMatrix in,
                    float* out);
// The same with numbers that the device's memory has when the kernel runs.
cudaError_t Dropout(cudaStream_t stream, const DropoutNumbers* on_device, float rate,
                    ConstMatrix in, float* out);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_DROPOUT_H_
