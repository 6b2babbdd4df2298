#ifndef SANGAM_WORKER_BACKEND_CUDA_REDUCE_CUH_
#define SANGAM_WORKER_BACKEND_CUDA_REDUCE_CUH_

#include <cuda_runtime.h>

// Sums over threads, in an order that never changes; every thread gets the result.
namespace sangam::cuda_kernels {

constexpr int kWarp = 32;

// Over a warp, all of whose threads call it.
__device__ inline float WarpSum(float x) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(0xFFFFFFFFu, x, distance);
  }
  return x;
}

// Over groups of kGroup neighbours: a warp, or a block of kGroup threads, all of which call it.
template <int kGroup>
__device__ inline float GroupSum(float x) {
  static_assert(kGroup % kWarp == 0, "groups are made of warps");
  x = WarpSum(x);
  if constexpr (kGroup > kWarp) {
    __shared__ float warps[kGroup / kWarp];
    // The sum before may still be read.
    __syncthreads();
    if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = x;
    __syncthreads();
    x = warps[0];
#pragma unroll
    for (int i = 1; i < kGroup / kWarp; ++i) x += warps[i];
  }
  return x;
}

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_REDUCE_CUH_
