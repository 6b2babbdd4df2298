#ifndef WORKER_BACKEND_CUDA_LAUNCH_H_
#define WORKER_BACKEND_CUDA_LAUNCH_H_

// Kernels are launched, and name their dynamic shared memory, through these two macros, so that the
// same sources build with nvcc and, for tests, with a C++ compiler against the stand-in of CUDA's
// runtime (tests/cuda_on_cpu).
//
//   SANGAM_LAUNCH(Scale, blocks, kThreads, 0, stream, x, n);
//   SANGAM_LAUNCH((Map<Relu, 4>), ...);    a name with commas takes parentheses
//   SANGAM_DYNAMIC_SHARED(float, tile);    in a kernel: float* tile

#include <cuda_runtime.h>

#if defined(__CUDACC__)

#define SANGAM_LAUNCH(kernel, grid, block, dynamic_shared_bytes, stream, ...) \
  kernel<<<grid, block, dynamic_shared_bytes, stream>>>(__VA_ARGS__)

// All kernels of a source see one array, so that its type must not depend on the kernel's.
#define SANGAM_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char sangam_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(sangam_dynamic_shared)

#else

#define SANGAM_LAUNCH(kernel, grid, block, dynamic_shared_bytes, stream, ...)           \
  cuda_on_cpu::LaunchKernel(#kernel, kernel, grid, block, dynamic_shared_bytes, stream, \
                            ##__VA_ARGS__)

#define SANGAM_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(cuda_on_cpu::DynamicShared())

#endif

#endif  // WORKER_BACKEND_CUDA_LAUNCH_H_
