#ifndef SANGAM_WORKER_BACKEND_CUDA_LOSSES_H_
#define SANGAM_WORKER_BACKEND_CUDA_LOSSES_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

// As in Backend; arguments are checked there. Labels, targets and `sums`, which is overwritten, are
// in device memory. `gradient` may be nullptr or the first matrix itself. scratch: as many bytes as
// the function that follows says, aligned to 8.
namespace sangam::cuda_kernels {

cudaError_t SoftmaxCrossEntropy(cudaStream_t stream, ConstMatrix logits, const uint32_t* labels,
                                float* gradient, void* scratch, ClassificationSums* sums);
size_t SoftmaxCrossEntropyScratchBytes(int64_t rows);

cudaError_t SquaredError(cudaStream_t stream, ConstMatrix outputs, const float* targets,
                         float* gradient, void* scratch, ClassificationSums* sums);

cudaError_t BinaryCrossEntropy(cudaStream_t stream, ConstMatrix outputs, const float* targets,
                               float* gradient, void* scratch, ClassificationSums* sums);
size_t NumberLossScratchBytes(int64_t elements);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_LOSSES_H_
