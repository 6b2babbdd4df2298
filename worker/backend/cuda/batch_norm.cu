#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/cuda/batch_norm.h"
#include "worker/backend/cuda/column_sums.cuh"
#include "worker/backend/cuda/for_columns.cuh"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace {

__device__ inline float InverseDeviation(float variance, float epsilon) {
  return 1.0f / sqrtf(variance + epsilon);
}

struct MeanTerms {
  using Sum = double;
  static constexpr int kSums = 1;
  const float* in;
  int64_t cols;

  template <int kWidth>
  __device__ void Add(int64_t row, int64_t col, double (&sums)[1][kWidth]) const {
    const Floats<kWidth> x = Load<kWidth>(in + row * cols + col);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sums[0][k] += static_cast<double>(x.v[k]);
  }
};

struct StoreMean {
  double rows;
  double* exact;
  float* mean;

  __device__ void operator()(int64_t col, const double (&sums)[1]) const {
    exact[col] = sums[0] / rows;
    mean[col] = static_cast<float>(exact[col]);
  }
};

struct VarianceTerms {
  using Sum = double;
  static constexpr int kSums = 1;
  const float* in;
  const double* mean;
  int64_t cols;

  template <int kWidth>
  __device__ void Add(int64_t row, int64_t col, double (&sums)[1][kWidth]) const {
    const Floats<kWidth> x = Load<kWidth>(in + row * cols + col);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const double from_mean = static_cast<double>(x.v[k]) - mean[col + k];
      sums[0][k] = fma(from_mean, from_mean, sums[0][k]);
    }
  }
};

struct StoreVariance {
  double rows;
  float* variance;

  __device__ void operator()(int64_t col, const double (&sums)[1]) const {
    variance[col] = static_cast<float>(sums[0] / rows);
  }
};

struct NormalizeBody {
  const float* in;
  const float* mean;
  const float* variance;
  float epsilon;
  const float* gain;
  const float* bias;
  float* out;

  template <int kWidth>
  struct Column {
    Floats<kWidth> mean;
    Floats<kWidth> scale;
    Floats<kWidth> bias;
  };

  template <int kWidth>
  __device__ Column<kWidth> ColumnAt(int64_t col) const {
    Column<kWidth> column;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      column.mean.v[k] = mean[col + k];
      column.scale.v[k] = gain[col + k] * InverseDeviation(variance[col + k], epsilon);
      column.bias.v[k] = bias[col + k];
    }
    return column;
  }

  template <int kWidth>
  __device__ void At(int64_t i, const Column<kWidth>& column) const {
    Floats<kWidth> x = Load<kWidth>(in + i);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      x.v[k] = fmaf(x.v[k] - column.mean.v[k], column.scale.v[k], column.bias.v[k]);
    }
    Store(x, out + i);
  }
};

struct GradientTerms {
  using Sum = double;
  static constexpr int kSums = 2;
  const float* in;
  const float* mean;
  const float* output_gradient;
  int64_t cols;

  template <int kWidth>
  __device__ void Add(int64_t row, int64_t col, double (&sums)[2][kWidth]) const {
    const Floats<kWidth> x = Load<kWidth>(in + row * cols + col);
    const Floats<kWidth> d = Load<kWidth>(output_gradient + row * cols + col);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      sums[0][k] += static_cast<double>(d.v[k] * (x.v[k] - mean[col + k]));
      sums[1][k] += static_cast<double>(d.v[k]);
    }
  }
};

struct StoreGradientSums {
  const float* variance;
  float epsilon;
  int64_t cols;
  float* sums;

  __device__ void operator()(int64_t col, const double (&totals)[2]) const {
    const double s = static_cast<double>(InverseDeviation(variance[col], epsilon));
    sums[col] = static_cast<float>(totals[0] * s);
    sums[cols + col] = static_cast<float>(totals[1]);
  }
};

struct BackwardBody {
  const float* in;
  const float* mean;
  const float* variance;
  float epsilon;
  const float* gain;
  const float* sums;
  const float* output_gradient;
  float rows;
  int64_t cols;
  float* input_gradient;

  template <int kWidth>
  struct Column {
    Floats<kWidth> mean;
    Floats<kWidth> scale;
    Floats<kWidth> along_x;
    Floats<kWidth> all;
  };

  template <int kWidth>
  __device__ Column<kWidth> ColumnAt(int64_t col) const {
    Column<kWidth> column;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const float s = InverseDeviation(variance[col + k], epsilon);
      column.mean.v[k] = mean[col + k];
      column.scale.v[k] = gain[col + k] * s;
      column.along_x.v[k] = s * (sums[col + k] / rows);
      column.all.v[k] = sums[cols + col + k] / rows;
    }
    return column;
  }

  template <int kWidth>
  __device__ void At(int64_t i, const Column<kWidth>& column) const {
    const Floats<kWidth> x = Load<kWidth>(in + i);
    Floats<kWidth> d = Load<kWidth>(output_gradient + i);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      d.v[k] = column.scale.v[k] *
               fmaf(-(x.v[k] - column.mean.v[k]), column.along_x.v[k], d.v[k] - column.all.v[k]);
    }
    Store(d, input_gradient + i);
  }
};

}  // namespace

// Scratch: the means in double, then the chunks' sums.
cudaError_t ColumnMoments(cudaStream_t stream, ConstMatrix in, void* scratch, float* mean,
                          float* variance) {
  auto* exact = static_cast<double*>(scratch);
  double* partial = exact + in.cols;
  const auto rows = static_cast<double>(in.rows);
  const bool vector = in.cols % 4 == 0 && Aligned16(in.data);
  const cudaError_t error =
      SumColumns(stream, MeanTerms{in.data, in.cols}, StoreMean{rows, exact, mean}, in.rows,
                 in.cols, vector, partial);
  if (error != cudaSuccess) return error;
  return SumColumns(stream, VarianceTerms{in.data, exact, in.cols}, StoreVariance{rows, variance},
                    in.rows, in.cols, vector, partial);
}

size_t ColumnMomentsScratchBytes(int64_t rows, int64_t cols) {
  return static_cast<size_t>(cols) * sizeof(double) + ColumnSumsScratchBytes<MeanTerms>(rows, cols);
}

cudaError_t NormalizeColumns(cudaStream_t stream, ConstMatrix in, const float* mean,
                             const float* variance, float epsilon, const float* gain,
                             const float* bias, float* out) {
  return ForColumns(stream, NormalizeBody{in.data, mean, variance, epsilon, gain, bias, out},
                    in.rows, in.cols, in.cols % 4 == 0 && Aligned16(in.data, out));
}

cudaError_t BatchNormSums(cudaStream_t stream, ConstMatrix in, const float* mean,
                          const float* variance, float epsilon, const float* output_gradient,
                          void* scratch, float* sums) {
  return SumColumns(stream, GradientTerms{in.data, mean, output_gradient, in.cols},
                    StoreGradientSums{variance, epsilon, in.cols, sums}, in.rows, in.cols,
                    in.cols % 4 == 0 && Aligned16(in.data, output_gradient), scratch);
}

size_t BatchNormSumsScratchBytes(int64_t rows, int64_t cols) {
  return ColumnSumsScratchBytes<GradientTerms>(rows, cols);
}

cudaError_t BatchNormBackward(cudaStream_t stream, ConstMatrix in, const float* mean,
                              const float* variance, float epsilon, const float* gain,
                              const float* sums, const float* output_gradient,
                              float* input_gradient) {
  const BackwardBody body{in.data, mean,          variance,        epsilon,
                          gain,    sums,          output_gradient, static_cast<float>(in.rows),
                          in.cols, input_gradient};
  return ForColumns(stream, body, in.rows, in.cols,
                    in.cols % 4 == 0 && Aligned16(in.data, output_gradient, input_gradient));
}

}  // namespace sangam::cuda_kernels
