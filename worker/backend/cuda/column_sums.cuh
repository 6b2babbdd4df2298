#ifndef SANGAM_WORKER_BACKEND_CUDA_COLUMN_SUMS_CUH_
#define SANGAM_WORKER_BACKEND_CUDA_COLUMN_SUMS_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "worker/backend/cuda/grid.h"
#include "worker/backend/cuda/launch.h"

// Sums over the rows of a matrix, for each column, in an order that depends on rows and cols alone:
// rows are split into chunks; in a chunk, lane l of kLanes takes the rows l, l + kLanes, ... one
// after the other; then come the lanes in their order, and, in a second launch, the chunks as if
// they were rows.
//
// What is summed:
//   struct Terms {
//     using Sum = ...;                    // float or double
//     static constexpr int kSums = ...;   // sums per column
//     // Adds the terms of the columns [col, col + kWidth) of a row; the same whatever kWidth is.
//     template <int kWidth>
//     __device__ void Add(int64_t row, int64_t col, Sum (&sums)[kSums][kWidth]) const;
//   };
// What becomes of it: `finish(col, sums)`, with Sum (&sums)[kSums].
namespace sangam::cuda_kernels {

constexpr int kLanes = 8;
constexpr int kColumnThreads = 32;

// How many pieces the rows are cut into.
struct Chunks {
  int64_t count;
  int64_t rows;  // of all but the last
};

inline Chunks ChunksOf(int64_t rows, int64_t cols) {
  // Many rows for each lane, and blocks for a whole device; the second launch should be short.
  constexpr int64_t kMinRows = 8 * kLanes;
  constexpr int64_t kMaxChunks = 256;
  constexpr int64_t kBlocks = 1024;
  const int64_t tiles = CeilDivide(cols, 4 * kColumnThreads);
  const int64_t most =
      std::min({CeilDivide(rows, kMinRows), CeilDivide(kBlocks, tiles), kMaxChunks});
  const int64_t chunk_rows = CeilDivide(rows, std::max<int64_t>(most, 1));
  return {std::max<int64_t>(chunk_rows == 0 ? 1 : CeilDivide(rows, chunk_rows), 1), chunk_rows};
}

template <typename Terms>
inline size_t ColumnSumsScratchBytes(int64_t rows, int64_t cols) {
  const int64_t chunks = ChunksOf(rows, cols).count;
  if (chunks == 1) return 0;
  return static_cast<size_t>(Terms::kSums * chunks * cols) * sizeof(typename Terms::Sum);
}

// Block (tile of columns, chunk of rows). With one chunk the sums are whole and are finished;
// otherwise they go to `partial`: [kSums][chunks][cols].
template <int kWidth, typename Terms, typename Finish>
__global__ void __launch_bounds__(kColumnThreads* kLanes)
    SumChunks(Terms terms, Finish finish, int64_t rows, int64_t cols, int64_t chunk_rows,
              typename Terms::Sum* partial) {
  using Sum = typename Terms::Sum;
  constexpr int kSums = Terms::kSums;
  __shared__ Sum lanes[kSums][kLanes][kColumnThreads * kWidth];

  const int64_t col = (int64_t{blockIdx.x} * kColumnThreads + threadIdx.x) * kWidth;
  const int64_t first = int64_t{blockIdx.y} * chunk_rows;
  const int64_t end = min(first + chunk_rows, rows);
  Sum sums[kSums][kWidth] = {};
  if (col < cols) {
#pragma unroll 4
    for (int64_t row = first + threadIdx.y; row < end; row += kLanes) {
      terms.template Add<kWidth>(row, col, sums);
    }
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      lanes[s][threadIdx.y][threadIdx.x * kWidth + k] = sums[s][k];
    }
  }
  __syncthreads();

  // One column for each of the first threads.
  const int own = static_cast<int>(threadIdx.y) * kColumnThreads + static_cast<int>(threadIdx.x);
  const int64_t own_col = int64_t{blockIdx.x} * kColumnThreads * kWidth + own;
  if (own >= kColumnThreads * kWidth || own_col >= cols) return;
  Sum totals[kSums];
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    totals[s] = lanes[s][0][own];
#pragma unroll
    for (int lane = 1; lane < kLanes; ++lane) totals[s] += lanes[s][lane][own];
  }
  if (gridDim.y == 1) {
    finish(own_col, totals);
    return;
  }
  for (int s = 0; s < kSums; ++s) {
    partial[(int64_t{s} * gridDim.y + blockIdx.y) * cols + own_col] = totals[s];
  }
}

// The chunks' sums as rows.
template <typename Terms>
struct PartialTerms {
  using Sum = typename Terms::Sum;
  static constexpr int kSums = Terms::kSums;
  const Sum* partial;
  int64_t chunks;
  int64_t cols;

  template <int kWidth>
  __device__ void Add(int64_t row, int64_t col, Sum (&sums)[kSums][kWidth]) const {
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sums[s][k] += partial[(s * chunks + row) * cols + col + k];
    }
  }
};

// `vector`: whether Add<4> may be called for columns that are multiples of 4; then cols is one.
template <typename Terms, typename Finish>
inline cudaError_t SumColumns(cudaStream_t stream, const Terms& terms, const Finish& finish,
                              int64_t rows, int64_t cols, bool vector, void* scratch) {
  const Chunks chunks = ChunksOf(rows, cols);
  const dim3 block(kColumnThreads, kLanes);
  const auto grid = [cols](int64_t count, int width) {
    return dim3(static_cast<unsigned>(CeilDivide(cols, int64_t{kColumnThreads} * width)),
                static_cast<unsigned>(count));
  };
  auto* partial = static_cast<typename Terms::Sum*>(scratch);
  // Few columns are better spread over more threads.
  if (vector && cols >= 4 * kColumnThreads) {
    SANGAM_LAUNCH((SumChunks<4, Terms, Finish>), grid(chunks.count, 4), block, 0, stream, terms,
                  finish, rows, cols, chunks.rows, partial);
  } else {
    SANGAM_LAUNCH((SumChunks<1, Terms, Finish>), grid(chunks.count, 1), block, 0, stream, terms,
                  finish, rows, cols, chunks.rows, partial);
  }
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess || chunks.count == 1) return error;
  SANGAM_LAUNCH((SumChunks<1, PartialTerms<Terms>, Finish>), grid(1, 1), block, 0, stream,
                PartialTerms<Terms>{partial, chunks.count, cols}, finish, chunks.count, cols,
                chunks.count, partial);
  return cudaGetLastError();
}

// out[s][col] = sum, or +=.
template <int kSums>
struct StoreSums {
  float* out[kSums];
  bool accumulate;

  __device__ void operator()(int64_t col, const float (&sums)[kSums]) const {
#pragma unroll
    for (int s = 0; s < kSums; ++s) out[s][col] = accumulate ? out[s][col] + sums[s] : sums[s];
  }
};

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_COLUMN_SUMS_CUH_
