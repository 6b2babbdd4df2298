#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/dropout.h"
#include "worker/backend/cuda/for_elements.cuh"
#include "worker/backend/cuda/grid.h"
#include "worker/backend/cuda/launch.h"
#include "worker/backend/cuda/philox_device.h"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace {

// Blocks of four numbers that a thread takes of a row: its stream costs as much as one of them.
constexpr int64_t kBlocksPerThread = 8;

// RandomPurpose::kDropout, whose header is not for kernels.
constexpr uint32_t kDropoutPurpose = 3;

struct DropoutCall {
  DropoutNumbers numbers;
  const DropoutNumbers* on_device;  // nullptr: `numbers` are the ones
  uint32_t threshold;
  float scale;
  const float* in;
  int64_t rows;
  int64_t cols;
  bool vector;
  float* out;
};

// `row_threads` neighbours share a row.
__global__ void __launch_bounds__(kThreads) DropoutKernel(DropoutCall call, int64_t row_threads) {
  const DropoutNumbers numbers = call.on_device != nullptr ? *call.on_device : call.numbers;
  const int64_t all = call.rows * row_threads;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < all; i += step) {
    const Place place = PlaceOf(i, row_threads);
    const DeviceRandomStream stream =
        StreamOf(numbers.family, numbers.first_minor + static_cast<uint64_t>(place.row));
    const float* x_row = call.in + place.row * call.cols;
    float* y_row = call.out + place.row * call.cols;
    for (int64_t block = place.col; 4 * block < call.cols; block += row_threads) {
      const Words words = stream.Block(static_cast<uint64_t>(block));
      Floats<4> x = LoadQuad(x_row, 4 * block, call.cols, call.vector);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        x.v[k] = (words.v[k] >> 8) >= call.threshold ? x.v[k] * call.scale : 0.0f;
      }
      StoreQuad(x, y_row, 4 * block, call.cols, call.vector);
    }
  }
}

cudaError_t Launch(cudaStream_t stream, DropoutCall call, float rate, ConstMatrix in, float* out) {
  // ToUnitFloat(bits) >= rate, without rounding, is (bits >> 8) >= rate * 2^24.
  call.threshold = static_cast<uint32_t>(std::ceil(rate * 16777216.0f));
  call.scale = 1.0f / (1.0f - rate);
  call.in = in.data;
  call.rows = in.rows;
  call.cols = in.cols;
  call.vector = in.cols % 4 == 0 && Aligned16(in.data, out);
  call.out = out;
  const int64_t row_threads = CeilDivide(CeilDivide(in.cols, 4), kBlocksPerThread);
  SANGAM_LAUNCH(DropoutKernel, GridBlocks(in.rows * row_threads, kThreads), kThreads, 0, stream,
                call, row_threads);
  return cudaGetLastError();
}

}  // namespace

DropoutNumbers NumbersOf(const DropoutAddress& address) {
  DropoutNumbers numbers;
  numbers.family = MakeRandomFamily(address.seed, kDropoutPurpose, address.step);
  numbers.first_minor = (uint64_t{address.layer} << 32) + address.first_position;
  return numbers;
}

cudaError_t Dropout(cudaStream_t stream, const DropoutAddress& address, float rate, ConstMatrix in,
                    float* out) {
  DropoutCall call = {};
  call.numbers = NumbersOf(address);
  return Launch(stream, call, rate, in, out);
}

cudaError_t Dropout(cudaStream_t stream, const DropoutNumbers* on_device, float rate,
                    ConstMatrix in, float* out) {
  DropoutCall call = {};
  call.on_device = on_device;
  return Launch(stream, call, rate, in, out);
}

}  // namespace sangam::cuda_kernels
