#ifndef SANGAM_WORKER_BACKEND_CUDA_SUMS_H_
#define SANGAM_WORKER_BACKEND_CUDA_SUMS_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/views.h"

// Sums over rows. Arguments are checked by Backend; `in` may have no rows.
namespace sangam::cuda_kernels {

// out[j] = sum over i of in[i, j], or += when `accumulate`, in the order of column_sums.cuh.
// `scratch`: as many bytes as the second function says, aligned to 16, for the time of the call's
// kernels.
cudaError_t SumRows(cudaStream_t stream, ConstMatrix in, bool accumulate, void* scratch,
                    float* out);
size_t SumRowsScratchBytes(int64_t rows, int64_t cols);

// As Backend::SumRepeated.
cudaError_t SumRepeated(cudaStream_t stream, ConstMatrix in, bool accumulate, Matrix out);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_SUMS_H_
