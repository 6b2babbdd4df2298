#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/cuda/column_sums.cuh"
#include "worker/backend/cuda/for_elements.cuh"
#include "worker/backend/cuda/sums.h"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace {

struct ElementTerms {
  using Sum = float;
  static constexpr int kSums = 1;
  const float* in;
  int64_t cols;

  template <int kWidth>
  __device__ void Add(int64_t row, int64_t col, float (&sums)[1][kWidth]) const {
    const Floats<kWidth> x = Load<kWidth>(in + row * cols + col);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sums[0][k] += x.v[k];
  }
};

// Row after row from the first to the last: columns are many, rows as few as sequences in a batch.
template <bool kAccumulate>
struct RepeatedBody {
  const float* in;
  int64_t repeats;
  int64_t size;  // of out
  float* out;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    Floats<kWidth> sum = {};
    if constexpr (kAccumulate) sum = Load<kWidth>(out + i);
#pragma unroll 4
    for (int64_t r = 0; r < repeats; ++r) {
      const Floats<kWidth> x = Load<kWidth>(in + r * size + i);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum.v[k] += x.v[k];
    }
    Store(sum, out + i);
  }
};

}  // namespace

cudaError_t SumRows(cudaStream_t stream, ConstMatrix in, bool accumulate, void* scratch,
                    float* out) {
  return SumColumns(stream, ElementTerms{in.data, in.cols}, StoreSums<1>{{out}, accumulate},
                    in.rows, in.cols, in.cols % 4 == 0 && Aligned16(in.data), scratch);
}

size_t SumRowsScratchBytes(int64_t rows, int64_t cols) {
  return ColumnSumsScratchBytes<ElementTerms>(rows, cols);
}

cudaError_t SumRepeated(cudaStream_t stream, ConstMatrix in, bool accumulate, Matrix out) {
  const int64_t repeats = in.rows / out.rows;
  const bool vector = out.size() % 4 == 0 && Aligned16(in.data, out.data);
  if (accumulate) {
    return ForElements(stream, RepeatedBody<true>{in.data, repeats, out.size(), out.data},
                       out.size(), vector);
  }
  return ForElements(stream, RepeatedBody<false>{in.data, repeats, out.size(), out.data},
                     out.size(), vector);
}

}  // namespace sangam::cuda_kernels
