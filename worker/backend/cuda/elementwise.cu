#include <cuda_runtime.h>

#include <cstdint>

#include "worker/backend/cuda/elementwise.h"
#include "worker/backend/cuda/for_elements.cuh"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace {

struct FillBody {
  float value;
  float* out;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    Floats<kWidth> x;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) x.v[k] = value;
    Store(x, out + i);
  }
};

struct CopyBody {
  const float* in;
  float* out;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    Store(Load<kWidth>(in + i), out + i);
  }
};

struct AddBody {
  const float* a;
  const float* b;
  float* out;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    Floats<kWidth> x = Load<kWidth>(a + i);
    const Floats<kWidth> y = Load<kWidth>(b + i);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) x.v[k] += y.v[k];
    Store(x, out + i);
  }
};

template <bool kAccumulate>
struct AddScaledBody {
  float scale;
  const float* in;
  float* out;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    Floats<kWidth> x = Load<kWidth>(in + i);
    if constexpr (kAccumulate) {
      const Floats<kWidth> before = Load<kWidth>(out + i);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        // Not fused: the CPU's bits.
        x.v[k] = __fadd_rn(before.v[k], __fmul_rn(scale, x.v[k]));
      }
    } else {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) x.v[k] *= scale;
    }
    Store(x, out + i);
  }
};

// out[i] = in[i] + addend[i % period], with max(., 0) if asked.
template <bool kRelu>
struct AddRepeatedBody {
  const float* in;
  const float* addend;
  int64_t period;
  float* out;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    Floats<kWidth> x = Load<kWidth>(in + i);
    const Floats<kWidth> y = Load<kWidth>(addend + PlaceOf(i, period).col);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const float sum = x.v[k] + y.v[k];
      // A NaN stays one, so that a broken step is seen.
      x.v[k] = kRelu && sum < 0 ? 0.0f : sum;
    }
    Store(x, out + i);
  }
};

struct CopyColumnsBody {
  const float* in;
  int64_t in_cols;
  int64_t columns;
  float* out;
  int64_t out_cols;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    const Place place = PlaceOf(i, columns);
    Store(Load<kWidth>(in + place.row * in_cols + place.col),
          out + place.row * out_cols + place.col);
  }
};

template <bool kRelu>
cudaError_t LaunchAddRepeated(cudaStream_t stream, ConstMatrix in, const float* addend,
                              int64_t period, float* out) {
  return ForElements(stream, AddRepeatedBody<kRelu>{in.data, addend, period, out}, in.size(),
                     period % 4 == 0 && Aligned16(in.data, addend, out));
}

}  // namespace

cudaError_t Fill(cudaStream_t stream, float value, Matrix out) {
  return ForElements(stream, FillBody{value, out.data}, out.size(), Aligned16(out.data));
}

cudaError_t Copy(cudaStream_t stream, const float* in, int64_t size, float* out) {
  return ForElements(stream, CopyBody{in, out}, size, Aligned16(in, out));
}

cudaError_t AddBias(cudaStream_t stream, const float* bias, Matrix inout) {
  return LaunchAddRepeated<false>(stream, inout, bias, inout.cols, inout.data);
}

cudaError_t AddBiasRelu(cudaStream_t stream, const float* bias, Matrix inout) {
  return LaunchAddRepeated<true>(stream, inout, bias, inout.cols, inout.data);
}

cudaError_t Add(cudaStream_t stream, const float* a, const float* b, int64_t size, float* out) {
  return ForElements(stream, AddBody{a, b, out}, size, Aligned16(a, b, out));
}

cudaError_t AddScaled(cudaStream_t stream, float scale, const float* in, int64_t size,
                      bool accumulate, float* out) {
  const bool vector = Aligned16(in, out);
  if (accumulate) return ForElements(stream, AddScaledBody<true>{scale, in, out}, size, vector);
  return ForElements(stream, AddScaledBody<false>{scale, in, out}, size, vector);
}

cudaError_t AddRepeated(cudaStream_t stream, ConstMatrix in, ConstMatrix addend, float* out) {
  return LaunchAddRepeated<false>(stream, in, addend.data, addend.size(), out);
}

cudaError_t CopyColumns(cudaStream_t stream, ConstMatrix in, int64_t in_column, int64_t columns,
                        Matrix out, int64_t out_column) {
  const CopyColumnsBody body{in.data + in_column, in.cols, columns, out.data + out_column,
                             out.cols};
  const bool whole = columns % 4 == 0 && in.cols % 4 == 0 && out.cols % 4 == 0;
  return ForElements(stream, body, in.rows * columns, whole && Aligned16(body.in, body.out));
}

}  // namespace sangam::cuda_kernels
