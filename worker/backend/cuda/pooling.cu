#include <cuda_runtime.h>
#include <math.h>

#include <cstdint>

#include "worker/backend/cuda/for_elements.cuh"
#include "worker/backend/cuda/pooling.h"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/cuda/window_places.cuh"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace {

// Each computes kWidth neighbouring channels of a pixel.

struct MaxPoolBody {
  Windows windows;
  const float* in;
  float* out;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    const Place place = PlaceOf(i, windows.channels);
    const Pixel pixel = windows.OutPixel(place.row);
    Floats<kWidth> largest;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) largest.v[k] = -INFINITY;
    windows.ForCovered(pixel, [&](int64_t covered, int, int) {
      const Floats<kWidth> next = Load<kWidth>(in + covered * windows.channels + place.col);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const float best = largest.v[k];
        largest.v[k] = next.v[k] <= best || best != best ? best : next.v[k];
      }
    });
    Store(largest, out + i);
  }
};

// NaN is the same as NaN.
__device__ inline bool Same(float a, float b) { return a == b || (a != a && b != b); }

struct MaxPoolBackwardBody {
  Windows windows;
  const float* in;
  const float* out;
  const float* output_gradient;
  float* input_gradient;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    const Place place = PlaceOf(i, windows.channels);
    const Pixel pixel = windows.InPixel(place.row);
    const Floats<kWidth> own = Load<kWidth>(in + i);
    Floats<kWidth> sum = {};
    windows.ForOutsOver(pixel, [&](int64_t over, int y, int x) {
      const int64_t result = over * windows.channels + place.col;
      const Floats<kWidth> largest = Load<kWidth>(out + result);
      bool takes[kWidth];
      bool any = false;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        takes[k] = Same(own.v[k], largest.v[k]);
        any = any || takes[k];
      }
      if (!any) return;
      LeaveToEarlierOnes<kWidth>(pixel, y, x, place.col, largest, takes);
      const Floats<kWidth> gradient = Load<kWidth>(output_gradient + result);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum.v[k] += takes[k] ? gradient.v[k] : 0.0f;
    });
    Store(sum, input_gradient + i);
  }

  // takes[k] becomes false where a pixel in front of `own`, in the window of the results (y, x),
  // has the largest element too.
  template <int kWidth>
  __device__ void LeaveToEarlierOnes(const Pixel& own, int y, int x, int64_t channel,
                                     const Floats<kWidth>& largest, bool (&takes)[kWidth]) const {
    const Range cols = windows.ColumnsOf(x);
    for (int row = windows.RowsOf(y).begin; row <= own.y; ++row) {
      const int end = row == own.y ? own.x : cols.end;
      const int64_t first = windows.InRow(own.image, row);
      for (int col = cols.begin; col < end; ++col) {
        const Floats<kWidth> other = Load<kWidth>(in + (first + col) * windows.channels + channel);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          takes[k] = takes[k] && !Same(other.v[k], largest.v[k]);
        }
      }
    }
  }
};

struct AveragePoolBody {
  Windows windows;
  float size;  // of a window
  const float* in;
  float* out;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    const Place place = PlaceOf(i, windows.channels);
    const Pixel pixel = windows.OutPixel(place.row);
    Floats<kWidth> sum = {};
    windows.ForCovered(pixel, [&](int64_t covered, int, int) {
      const Floats<kWidth> next = Load<kWidth>(in + covered * windows.channels + place.col);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum.v[k] += next.v[k];
    });
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum.v[k] /= size;
    Store(sum, out + i);
  }
};

struct AveragePoolBackwardBody {
  Windows windows;
  float size;
  const float* output_gradient;
  float* input_gradient;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    const Place place = PlaceOf(i, windows.channels);
    const Pixel pixel = windows.InPixel(place.row);
    Floats<kWidth> sum = {};
    windows.ForOutsOver(pixel, [&](int64_t over, int, int) {
      const Floats<kWidth> gradient =
          Load<kWidth>(output_gradient + over * windows.channels + place.col);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum.v[k] += gradient.v[k] / size;
    });
    Store(sum, input_gradient + i);
  }
};

float WindowSize(const WindowShape& shape) {
  return static_cast<float>(shape.window.kernel_height * shape.window.kernel_width);
}

}  // namespace

cudaError_t MaxPool2d(cudaStream_t stream, const WindowShape& shape, ConstMatrix in, float* out) {
  const bool vector = Aligned16(in.data, out) && shape.in.channels % 4 == 0;
  return ForElements(stream, MaxPoolBody{WindowsOf(shape), in.data, out},
                     in.rows * shape.out().elements(), vector);
}

cudaError_t MaxPool2dBackward(cudaStream_t stream, const WindowShape& shape, ConstMatrix in,
                              const float* out, const float* output_gradient,
                              float* input_gradient) {
  const bool vector =
      Aligned16(in.data, out, output_gradient, input_gradient) && shape.in.channels % 4 == 0;
  return ForElements(
      stream, MaxPoolBackwardBody{WindowsOf(shape), in.data, out, output_gradient, input_gradient},
      in.size(), vector);
}

cudaError_t AveragePool2d(cudaStream_t stream, const WindowShape& shape, ConstMatrix in,
                          float* out) {
  const bool vector = Aligned16(in.data, out) && shape.in.channels % 4 == 0;
  return ForElements(stream, AveragePoolBody{WindowsOf(shape), WindowSize(shape), in.data, out},
                     in.rows * shape.out().elements(), vector);
}

cudaError_t AveragePool2dBackward(cudaStream_t stream, const WindowShape& shape,
                                  ConstMatrix output_gradient, float* input_gradient) {
  const bool vector = Aligned16(output_gradient.data, input_gradient) && shape.in.channels % 4 == 0;
  return ForElements(stream,
                     AveragePoolBackwardBody{WindowsOf(shape), WindowSize(shape),
                                             output_gradient.data, input_gradient},
                     output_gradient.rows * shape.in.elements(), vector);
}

}  // namespace sangam::cuda_kernels
