#ifndef SANGAM_WORKER_BACKEND_CUDA_FOR_ELEMENTS_CUH_
#define SANGAM_WORKER_BACKEND_CUDA_FOR_ELEMENTS_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/backend/cuda/grid.h"
#include "worker/backend/cuda/launch.h"

// A loop over `size` elements. `body.template At<kWidth>(i)` computes the elements
// [i, i + kWidth); it has to give the same bits whatever kWidth is: 1 or 4.
namespace sangam::cuda_kernels {

template <int kWidth, typename Body>
__global__ void __launch_bounds__(kThreads) ForElementsKernel(Body body, int64_t size) {
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t threads = int64_t{gridDim.x} * kThreads;
  const int64_t groups = size / kWidth;
  for (int64_t group = thread; group < groups; group += threads) {
    body.template At<kWidth>(group * kWidth);
  }
  if constexpr (kWidth > 1) {
    const int64_t rest = groups * kWidth + thread;
    if (rest < size) body.template At<1>(rest);
  }
}

// `vector`: all that At<4> loads and stores are multiples of 16 bytes when i is one of 4.
template <typename Body>
inline cudaError_t ForElements(cudaStream_t stream, const Body& body, int64_t size, bool vector) {
  if (vector) {
    SANGAM_LAUNCH((ForElementsKernel<4, Body>), GridBlocks(size, 4 * kThreads), kThreads, 0, stream,
                  body, size);
  } else {
    SANGAM_LAUNCH((ForElementsKernel<1, Body>), GridBlocks(size, kThreads), kThreads, 0, stream,
                  body, size);
  }
  return cudaGetLastError();
}

// `index` as a row and a column. Most matrices are small enough for the fast division.
struct Place {
  int64_t row;
  int64_t col;
};

__device__ inline Place PlaceOf(int64_t index, int64_t cols) {
  if (((index | cols) >> 32) == 0) {
    const auto row = static_cast<uint32_t>(index) / static_cast<uint32_t>(cols);
    const auto first = row * static_cast<uint32_t>(cols);
    return {int64_t{row}, int64_t{static_cast<uint32_t>(index) - first}};
  }
  const int64_t row = index / cols;
  return {row, index - row * cols};
}

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_FOR_ELEMENTS_CUH_
