#include <cuda_runtime.h>

#include <cstdint>

#include "worker/backend/cuda/bf16.h"
#include "worker/backend/cuda/bf16_bits.cuh"
#include "worker/backend/cuda/for_elements.cuh"
#include "worker/backend/cuda/vector_load.cuh"

namespace sangam::cuda_kernels {
namespace {

struct RoundBody {
  const float* in;
  float* out;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    Floats<kWidth> x = Load<kWidth>(in + i);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) x.v[k] = RoundedToBf16(x.v[k]);
    Store(x, out + i);
  }
};

struct PackBody {
  const float* in;
  uint16_t* out;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    const Floats<kWidth> x = Load<kWidth>(in + i);
    if constexpr (kWidth == 4) {
      const uint2 packed = {Bf16Bits(x.v[1]) << 16 | Bf16Bits(x.v[0]),
                            Bf16Bits(x.v[3]) << 16 | Bf16Bits(x.v[2])};
      *reinterpret_cast<uint2*>(out + i) = packed;
    } else {
      out[i] = static_cast<uint16_t>(Bf16Bits(x.v[0]));
    }
  }
};

}  // namespace

cudaError_t RoundToBf16(cudaStream_t stream, const float* in, int64_t size, float* out) {
  return ForElements(stream, RoundBody{in, out}, size, Aligned16(in, out));
}

cudaError_t PackBf16(cudaStream_t stream, const float* in, int64_t size, uint16_t* out) {
  return ForElements(stream, PackBody{in, out}, size, Aligned16(in, out));
}

}  // namespace sangam::cuda_kernels
