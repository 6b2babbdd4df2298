#ifndef TESTS_CUDA_ON_CPU_INCLUDE_CUDA_RUNTIME_H_
#define TESTS_CUDA_ON_CPU_INCLUDE_CUDA_RUNTIME_H_

// Stands in for CUDA's header of this name: the host's functions and what device code is written
// in.

#include "cuda_on_cpu/atomics.h"
#include "cuda_on_cpu/barriers.h"
#include "cuda_on_cpu/device.h"
#include "cuda_on_cpu/launch.h"
#include "cuda_on_cpu/numbers.h"
#include "cuda_on_cpu/warps.h"
#include "cuda_runtime_api.h"
#include "vector_types.h"

template <typename... Params>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Params...), cudaFuncAttribute attribute,
                                 int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

template <typename T>
cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}

template <typename T>
cudaError_t cudaMallocHost(T** pointer, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(pointer), bytes);
}

template <typename T>
cudaError_t cudaHostAlloc(T** pointer, size_t bytes, unsigned int flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(pointer), bytes, flags);
}

#endif  // TESTS_CUDA_ON_CPU_INCLUDE_CUDA_RUNTIME_H_
