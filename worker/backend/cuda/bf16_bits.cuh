#ifndef SANGAM_WORKER_BACKEND_CUDA_BF16_BITS_CUH_
#define SANGAM_WORKER_BACKEND_CUDA_BF16_BITS_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

// bfloat16 within kernels, as cpu/bf16.h has it, bit for bit.
namespace sangam::cuda_kernels {

// CUDA's own conversion would lose a NaN's digits, which the CPU keeps.
__device__ inline uint32_t Bf16Bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  const uint32_t rounded = bits + (0x7FFFu + ((bits >> 16) & 1));
  const uint32_t quiet = bits | 0x00400000u;
  return ((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded) >> 16;
}

// The rounded number as binary32.
__device__ inline float RoundedToBf16(float x) {
  const uint32_t bits = Bf16Bits(x) << 16;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_BF16_BITS_CUH_
