#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/cuda/column_sums.cuh"
#include "worker/backend/cuda/rms_norm.h"
#include "worker/backend/cuda/row_groups.cuh"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace {

struct ForwardBody {
  const float* in;
  const float* gain;
  float epsilon;
  int64_t cols;
  bool vector;
  float* out;
  float* inverse_rms;

  template <typename Group>
  __device__ void Row(const Group& group, int64_t row) const {
    const float* x_row = in + row * cols;
    float squares = 0;
    group.ForQuads(cols, [&](int64_t first) {
      const Floats<4> x = LoadQuad(x_row, first, cols, vector);
#pragma unroll
      for (int k = 0; k < 4; ++k) squares = fmaf(x.v[k], x.v[k], squares);
    });
    const float s = 1.0f / sqrtf(group.Sum(squares) / static_cast<float>(cols) + epsilon);
    group.ForQuads(cols, [&](int64_t first) {
      Floats<4> x = LoadQuad(x_row, first, cols, vector);
      const Floats<4> g = LoadQuad(gain, first, cols, vector);
#pragma unroll
      for (int k = 0; k < 4; ++k) x.v[k] = (g.v[k] * x.v[k]) * s;
      StoreQuad(x, out + row * cols, first, cols, vector);
    });
    if (group.thread == 0) inverse_rms[row] = s;
  }
};

struct BackwardBody {
  const float* in;
  const float* gain;
  const float* inverse_rms;
  const float* output_gradient;
  int64_t cols;
  bool vector;
  float* input_gradient;

  template <typename Group>
  __device__ void Row(const Group& group, int64_t row) const {
    const float* x_row = in + row * cols;
    const float* d_row = output_gradient + row * cols;
    float products = 0;
    group.ForQuads(cols, [&](int64_t first) {
      const Floats<4> x = LoadQuad(x_row, first, cols, vector);
      const Floats<4> d = LoadQuad(d_row, first, cols, vector);
      const Floats<4> g = LoadQuad(gain, first, cols, vector);
#pragma unroll
      for (int k = 0; k < 4; ++k) products = fmaf(g.v[k] * d.v[k], x.v[k], products);
    });
    const float s = inverse_rms[row];
    const float along_x = ((s * s) * s) * (group.Sum(products) / static_cast<float>(cols));
    group.ForQuads(cols, [&](int64_t first) {
      const Floats<4> x = LoadQuad(x_row, first, cols, vector);
      Floats<4> d = LoadQuad(d_row, first, cols, vector);
      const Floats<4> g = LoadQuad(gain, first, cols, vector);
#pragma unroll
      for (int k = 0; k < 4; ++k) d.v[k] = fmaf(-x.v[k], along_x, s * (g.v[k] * d.v[k]));
      StoreQuad(d, input_gradient + row * cols, first, cols, vector);
    });
  }
};

struct GainTerms {
  using Sum = float;
  static constexpr int kSums = 1;
  const float* in;
  const float* inverse_rms;
  const float* output_gradient;
  int64_t cols;

  template <int kWidth>
  __device__ void Add(int64_t row, int64_t col, float (&sums)[1][kWidth]) const {
    const Floats<kWidth> x = Load<kWidth>(in + row * cols + col);
    const Floats<kWidth> d = Load<kWidth>(output_gradient + row * cols + col);
    const float s = inverse_rms[row];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sums[0][k] = fmaf(d.v[k] * x.v[k], s, sums[0][k]);
  }
};

}  // namespace

cudaError_t RmsNorm(cudaStream_t stream, ConstMatrix in, const float* gain, float epsilon,
                    float* out, float* inverse_rms) {
  const bool vector = in.cols % 4 == 0 && Aligned16(in.data, gain, out);
  return ForRows(stream, ForwardBody{in.data, gain, epsilon, in.cols, vector, out, inverse_rms},
                 in.rows, in.cols);
}

cudaError_t RmsNormBackward(cudaStream_t stream, ConstMatrix in, const float* gain,
                            const float* inverse_rms, const float* output_gradient,
                            float* input_gradient) {
  const bool vector = in.cols % 4 == 0 && Aligned16(in.data, gain, output_gradient, input_gradient);
  return ForRows(
      stream,
      BackwardBody{in.data, gain, inverse_rms, output_gradient, in.cols, vector, input_gradient},
      in.rows, in.cols);
}

cudaError_t RmsNormGainGradient(cudaStream_t stream, ConstMatrix in, const float* inverse_rms,
                                const float* output_gradient, bool accumulate, void* scratch,
                                float* gain_gradient) {
  return SumColumns(stream, GainTerms{in.data, inverse_rms, output_gradient, in.cols},
                    StoreSums<1>{{gain_gradient}, accumulate}, in.rows, in.cols,
                    in.cols % 4 == 0 && Aligned16(in.data, output_gradient), scratch);
}

size_t RmsNormGainGradientScratchBytes(int64_t rows, int64_t cols) {
  return ColumnSumsScratchBytes<GainTerms>(rows, cols);
}

}  // namespace sangam::cuda_kernels
