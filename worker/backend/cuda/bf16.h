#ifndef SANGAM_WORKER_BACKEND_CUDA_BF16_H_
#define SANGAM_WORKER_BACKEND_CUDA_BF16_H_

#include <cuda_runtime.h>

#include <cstdint>

// bfloat16 as cpu/bf16.h has it, bit for bit: to nearest, ties to even; beyond the largest:
// infinite; a NaN stays one, made quiet.
namespace sangam::cuda_kernels {

// out[i] = in[i] rounded, for `size` elements; `out` may be `in`.
cudaError_t RoundToBf16(cudaStream_t stream, const float* in, int64_t size, float* out);

// The same as the upper halves alone.
cudaError_t PackBf16(cudaStream_t stream, const float* in, int64_t size, uint16_t* out);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_BF16_H_
