#include <cuda_runtime.h>
#include <math.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/cuda/for_elements.cuh"
#include "worker/backend/cuda/grid.h"
#include "worker/backend/cuda/launch.h"
#include "worker/backend/cuda/rotary.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace {

// table[t, i] = cos and sin of t * base^(-2i / width), `pairs` of them for a position.
__global__ void __launch_bounds__(kThreads)
    TableKernel(int64_t size, int64_t pairs, double base, float2* __restrict__ table) {
  const double log_base = log(base);
  const int64_t threads = int64_t{gridDim.x} * kThreads;
  for (int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x; at < size; at += threads) {
    const Place place = PlaceOf(at, pairs);
    const double part = static_cast<double>(place.col) / static_cast<double>(pairs);
    const double angle = static_cast<double>(place.row) * exp(-part * log_base);
    table[at] = make_float2(static_cast<float>(cos(angle)), static_cast<float>(sin(angle)));
  }
}

struct Turn {
  int64_t positions;
  int64_t head_pairs;    // of a head
  int64_t turned_pairs;  // of a row: queries and keys
  int64_t row_pairs;
  float direction;
};

// One pair of columns a thread and turn. kVector: pairs are multiples of 8 bytes.
template <bool kVector>
__global__ void __launch_bounds__(kThreads)
    RotateKernel(Turn turn, int64_t rows, int64_t pairs, const float* in,
                 const float2* __restrict__ table, float* out) {
  const int64_t threads = int64_t{gridDim.x} * kThreads;
  for (int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x; at < rows * pairs;
       at += threads) {
    const Place place = PlaceOf(at, pairs);
    const int64_t first = 2 * (place.row * turn.row_pairs + place.col);
    float a, b;
    if constexpr (kVector) {
      const float2 x = *reinterpret_cast<const float2*>(in + first);
      a = x.x;
      b = x.y;
    } else {
      a = in[first];
      b = in[first + 1];
    }
    if (place.col < turn.turned_pairs) {
      const int64_t position = PlaceOf(place.row, turn.positions).col;
      const int64_t pair = PlaceOf(place.col, turn.head_pairs).col;
      const float2 cos_sin = table[position * turn.head_pairs + pair];
      const float sine = cos_sin.y * turn.direction;
      const float turned = fmaf(-b, sine, a * cos_sin.x);
      b = fmaf(a, sine, b * cos_sin.x);
      a = turned;
    }
    if constexpr (kVector) {
      *reinterpret_cast<float2*>(out + first) = make_float2(a, b);
    } else {
      out[first] = a;
      out[first + 1] = b;
    }
  }
}

}  // namespace

size_t RotaryTableBytes(int64_t positions, int64_t head_width) {
  return static_cast<size_t>(positions * (head_width / 2)) * sizeof(float2);
}

cudaError_t FillRotaryTable(cudaStream_t stream, int64_t positions, int64_t head_width, float base,
                            float* table) {
  const int64_t pairs = head_width / 2;
  SANGAM_LAUNCH(TableKernel, GridBlocks(positions * pairs, kThreads), kThreads, 0, stream,
                positions * pairs, pairs, double{base}, reinterpret_cast<float2*>(table));
  return cudaGetLastError();
}

cudaError_t Rotate(cudaStream_t stream, const Rotation& rotation, ConstMatrix in,
                   const float* table, float* out) {
  Turn turn;
  turn.positions = rotation.positions;
  turn.row_pairs = in.cols / 2;
  turn.turned_pairs = in.cols / 3;
  turn.head_pairs = in.cols / 3 / rotation.heads / 2;
  turn.direction = rotation.backward ? -1.0f : 1.0f;
  // In place, the values are where they belong.
  const int64_t pairs = in.data == out ? turn.turned_pairs : turn.row_pairs;
  const auto* const turns = reinterpret_cast<const float2*>(table);
  const unsigned blocks = GridBlocks(in.rows * pairs, kThreads);
  const bool vector =
      ((reinterpret_cast<uintptr_t>(in.data) | reinterpret_cast<uintptr_t>(out)) & 7) == 0;
  if (vector) {
    SANGAM_LAUNCH(RotateKernel<true>, blocks, kThreads, 0, stream, turn, in.rows, pairs, in.data,
                  turns, out);
  } else {
    SANGAM_LAUNCH(RotateKernel<false>, blocks, kThreads, 0, stream, turn, in.rows, pairs, in.data,
                  turns, out);
  }
  return cudaGetLastError();
}

}  // namespace sangam::cuda_kernels
