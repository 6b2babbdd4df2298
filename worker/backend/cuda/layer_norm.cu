#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/cuda/column_sums.cuh"
#include "worker/backend/cuda/layer_norm.h"
#include "worker/backend/cuda/row_groups.cuh"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace {

struct ForwardBody {
  const float* in;
  const float* gain;
  const float* bias;
  float epsilon;
  int64_t cols;
  bool vector;
  float* out;
  float* mean;
  float* inverse_deviation;

  template <typename Group>
  __device__ void Row(const Group& group, int64_t row) const {
    const float* x_row = in + row * cols;
    const auto count = static_cast<float>(cols);
    float sum = 0;
    group.ForQuads(cols, [&](int64_t first) {
      const Floats<4> x = LoadQuad(x_row, first, cols, vector);
#pragma unroll
      for (int k = 0; k < 4; ++k) sum += x.v[k];
    });
    const float m = group.Sum(sum) / count;
    float squares = 0;
    group.ForQuads(cols, [&](int64_t first) {
      const Floats<4> x = LoadQuad(x_row, first, cols, vector);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float from_mean = first + k < cols ? x.v[k] - m : 0.0f;
        squares = fmaf(from_mean, from_mean, squares);
      }
    });
    const float s = 1.0f / sqrtf(group.Sum(squares) / count + epsilon);
    group.ForQuads(cols, [&](int64_t first) {
      Floats<4> x = LoadQuad(x_row, first, cols, vector);
      const Floats<4> g = LoadQuad(gain, first, cols, vector);
      const Floats<4> b = LoadQuad(bias, first, cols, vector);
#pragma unroll
      for (int k = 0; k < 4; ++k) x.v[k] = fmaf(g.v[k] * (x.v[k] - m), s, b.v[k]);
      StoreQuad(x, out + row * cols, first, cols, vector);
    });
    if (group.thread == 0) {
      mean[row] = m;
      inverse_deviation[row] = s;
    }
  }
};

struct BackwardBody {
  const float* in;
  const float* gain;
  const float* mean;
  const float* inverse_deviation;
  const float* output_gradient;
  int64_t cols;
  bool vector;
  float* input_gradient;

  template <typename Group>
  __device__ void Row(const Group& group, int64_t row) const {
    const float* x_row = in + row * cols;
    const float* d_row = output_gradient + row * cols;
    const auto count = static_cast<float>(cols);
    const float m = mean[row];
    const float s = inverse_deviation[row];
    float sum = 0;
    float products = 0;
    group.ForQuads(cols, [&](int64_t first) {
      const Floats<4> x = LoadQuad(x_row, first, cols, vector);
      const Floats<4> d = LoadQuad(d_row, first, cols, vector);
      const Floats<4> g = LoadQuad(gain, first, cols, vector);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        // Beyond the last column the gain is 0.
        const float gd = g.v[k] * d.v[k];
        sum = __fadd_rn(sum, gd);
        products = fmaf(gd, x.v[k] - m, products);
      }
    });
    const float all = group.Sum(sum) / count;
    const float along_x = (s * s) * (group.Sum(products) / count);
    group.ForQuads(cols, [&](int64_t first) {
      const Floats<4> x = LoadQuad(x_row, first, cols, vector);
      Floats<4> d = LoadQuad(d_row, first, cols, vector);
      const Floats<4> g = LoadQuad(gain, first, cols, vector);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        d.v[k] = s * fmaf(-(x.v[k] - m), along_x, fmaf(g.v[k], d.v[k], -all));
      }
      StoreQuad(d, input_gradient + row * cols, first, cols, vector);
    });
  }
};

struct ParameterTerms {
  using Sum = float;
  static constexpr int kSums = 2;
  const float* in;
  const float* mean;
  const float* inverse_deviation;
  const float* output_gradient;
  int64_t cols;

  template <int kWidth>
  __device__ void Add(int64_t row, int64_t col, float (&sums)[2][kWidth]) const {
    const Floats<kWidth> x = Load<kWidth>(in + row * cols + col);
    const Floats<kWidth> d = Load<kWidth>(output_gradient + row * cols + col);
    const float m = mean[row];
    const float s = inverse_deviation[row];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      sums[0][k] = fmaf(d.v[k] * (x.v[k] - m), s, sums[0][k]);
      sums[1][k] += d.v[k];
    }
  }
};

}  // namespace

cudaError_t LayerNorm(cudaStream_t stream, ConstMatrix in, const float* gain, const float* bias,
                      float epsilon, float* out, float* mean, float* inverse_deviation) {
  const bool vector = in.cols % 4 == 0 && Aligned16(in.data, gain, bias, out);
  return ForRows(
      stream,
      ForwardBody{in.data, gain, bias, epsilon, in.cols, vector, out, mean, inverse_deviation},
      in.rows, in.cols);
}

cudaError_t LayerNormBackward(cudaStream_t stream, ConstMatrix in, const float* gain,
                              const float* mean, const float* inverse_deviation,
                              const float* output_gradient, float* input_gradient) {
  const bool vector = in.cols % 4 == 0 && Aligned16(in.data, gain, output_gradient, input_gradient);
  return ForRows(stream,
                 BackwardBody{in.data, gain, mean, inverse_deviation, output_gradient, in.cols,
                              vector, input_gradient},
                 in.rows, in.cols);
}

cudaError_t LayerNormParameterGradients(cudaStream_t stream, ConstMatrix in, const float* mean,
                                        const float* inverse_deviation,
                                        const float* output_gradient, bool accumulate,
                                        void* scratch, float* gain_gradient, float* bias_gradient) {
  return SumColumns(stream,
                    ParameterTerms{in.data, mean, inverse_deviation, output_gradient, in.cols},
                    StoreSums<2>{{gain_gradient, bias_gradient}, accumulate}, in.rows, in.cols,
                    in.cols % 4 == 0 && Aligned16(in.data, output_gradient), scratch);
}

size_t LayerNormParameterGradientsScratchBytes(int64_t rows, int64_t cols) {
  return ColumnSumsScratchBytes<ParameterTerms>(rows, cols);
}

}  // namespace sangam::cuda_kernels
