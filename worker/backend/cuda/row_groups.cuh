#ifndef SANGAM_WORKER_BACKEND_CUDA_ROW_GROUPS_CUH_
#define SANGAM_WORKER_BACKEND_CUDA_ROW_GROUPS_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/backend/cuda/grid.h"
#include "worker/backend/cuda/launch.h"
#include "worker/backend/cuda/reduce.cuh"

// Kernels that take a row at a time, with a warp for a short one and a block for a long one. Thread
// t of n takes the columns 4 t + [0, 4), 4 (t + n) + [0, 4) and so on, so that the order of a sum
// over a row depends on its length alone.
namespace sangam::cuda_kernels {

// The threads of one row. All of them have to come to each Sum.
template <int kGroup>
struct RowGroup {
  int thread;  // in [0, kGroup)

  // visit(first) for the quads [first, first + 4) of this thread; the last may reach beyond `cols`.
  template <typename Visit>
  __device__ void ForQuads(int64_t cols, const Visit& visit) const {
#pragma unroll 2
    for (int64_t first = int64_t{4} * thread; first < cols; first += 4 * kGroup) visit(first);
  }

  // Over all threads; they all get it.
  __device__ float Sum(float x) const { return GroupSum<kGroup>(x); }
};

// `body.Row(group, row)` for every row.
template <int kGroup, typename Body>
__global__ void __launch_bounds__(kThreads) ForRowsKernel(Body body, int64_t rows) {
  constexpr int kGroups = kThreads / kGroup;
  const RowGroup<kGroup> group{static_cast<int>(threadIdx.x) % kGroup};
  const int64_t first = int64_t{blockIdx.x} * kGroups + threadIdx.x / kGroup;
  for (int64_t row = first; row < rows; row += int64_t{gridDim.x} * kGroups) body.Row(group, row);
}

template <typename Body>
inline cudaError_t ForRows(cudaStream_t stream, const Body& body, int64_t rows, int64_t cols) {
  // Up to eight quads for each thread of a warp.
  constexpr int64_t kWarpCols = 1024;
  if (cols <= kWarpCols) {
    SANGAM_LAUNCH((ForRowsKernel<kWarp, Body>), GridBlocks(rows, kThreads / kWarp), kThreads, 0,
                  stream, body, rows);
  } else {
    SANGAM_LAUNCH((ForRowsKernel<kThreads, Body>), GridBlocks(rows, 1), kThreads, 0, stream, body,
                  rows);
  }
  return cudaGetLastError();
}

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_ROW_GROUPS_CUH_
