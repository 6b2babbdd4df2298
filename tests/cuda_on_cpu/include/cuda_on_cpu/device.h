#ifndef TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_DEVICE_H_
#define TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_DEVICE_H_

// The words of device code.

#include "../vector_types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

// Blocks run one after the other on an operating system's thread, so what the threads of a block
// share is a variable of that thread. shared_memory.h fills it with garbage before each block.
#define __shared__ static thread_local

// `__thread`: no code to initialise them at each use. The scheduler of a block sets them
// (block.cc).
extern __thread uint3 threadIdx;
extern __thread uint3 blockIdx;
extern __thread uint3 blockDim;
extern __thread uint3 gridDim;
constexpr int warpSize = 32;

namespace cuda_on_cpu {

// The start of the block's dynamic shared memory.
void* DynamicShared();

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_DEVICE_H_
