#ifndef SANGAM_WORKER_BACKEND_CUDA_FOR_COLUMNS_CUH_
#define SANGAM_WORKER_BACKEND_CUDA_FOR_COLUMNS_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "worker/backend/cuda/grid.h"
#include "worker/backend/cuda/launch.h"

// A loop over the elements of a matrix for bodies with work to do once per column:
//   struct Body {
//     template <int kWidth>
//     struct Column { ... };
//     // For the columns [col, col + kWidth), kWidth being 1 or 4.
//     template <int kWidth>
//     __device__ Column<kWidth> ColumnAt(int64_t col) const;
//     // Elements [i, i + kWidth), which lie in these columns; the same bits whatever kWidth is.
//     template <int kWidth>
//     __device__ void At(int64_t i, const Column<kWidth>& column) const;
//   };
namespace sangam::cuda_kernels {

// Threads of a block: columns, rows.
constexpr int kTileColumns = 32;
constexpr int kTileRows = 8;

template <int kWidth, typename Body>
__global__ void __launch_bounds__(kTileColumns* kTileRows)
    ForColumnsKernel(Body body, int64_t rows, int64_t cols) {
  const int64_t col = (int64_t{blockIdx.x} * kTileColumns + threadIdx.x) * kWidth;
  if (col >= cols) return;
  const auto column = body.template ColumnAt<kWidth>(col);
  const int64_t step = int64_t{gridDim.y} * kTileRows;
  for (int64_t row = int64_t{blockIdx.y} * kTileRows + threadIdx.y; row < rows; row += step) {
    body.template At<kWidth>(row * cols + col, column);
  }
}

// `vector`: as in SumColumns.
template <typename Body>
inline cudaError_t ForColumns(cudaStream_t stream, const Body& body, int64_t rows, int64_t cols,
                              bool vector) {
  // Rows for each thread, so that the work per column counts for little.
  constexpr int64_t kRows = 4;
  // Few columns are better spread over more threads.
  const bool wide = vector && cols >= 4 * kTileColumns;
  const int64_t tiles = CeilDivide(cols, kTileColumns * (wide ? 4 : 1));
  const int64_t slices =
      std::clamp<int64_t>(CeilDivide(rows, kRows * kTileRows), 1, CeilDivide(kMaxBlocks, tiles));
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(slices));
  const dim3 block(kTileColumns, kTileRows);
  if (wide) {
    SANGAM_LAUNCH((ForColumnsKernel<4, Body>), grid, block, 0, stream, body, rows, cols);
  } else {
    SANGAM_LAUNCH((ForColumnsKernel<1, Body>), grid, block, 0, stream, body, rows, cols);
  }
  return cudaGetLastError();
}

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_FOR_COLUMNS_CUH_
