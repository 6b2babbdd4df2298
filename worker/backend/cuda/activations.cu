#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/activations.h"
#include "worker/backend/cuda/for_elements.cuh"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace {

// Phi(x), the normal distribution; from what lies beyond, so that small values keep their digits.
__device__ inline float NormalDistribution(float x) {
  constexpr float kInverseSqrt2 = 0.707106781f;
  return 0.5f * erfcf(-x * kInverseSqrt2);
}

// A NaN goes through all of these, so that a broken step is seen.
struct Relu {
  static __device__ float Value(float x) { return x < 0 ? 0.0f : x; }
  static __device__ float Gradient(float kept, float dy) { return kept <= 0 ? 0.0f : dy; }
};

struct Gelu {
  static __device__ float Value(float x) { return x * NormalDistribution(x); }
  static __device__ float Gradient(float kept, float dy) {
    constexpr float kInverseSqrt2Pi = 0.398942280f;
    const float bell = expf(-0.5f * (kept * kept));
    return dy * fmaf(kept * bell, kInverseSqrt2Pi, NormalDistribution(kept));
  }
};

struct Tanh {
  static __device__ float Value(float x) { return tanhf(x); }
  static __device__ float Gradient(float kept, float dy) { return dy * fmaf(-kept, kept, 1.0f); }
};

struct Sigmoid {
  static __device__ float Value(float x) { return 1.0f / (1.0f + expf(-x)); }
  static __device__ float Gradient(float kept, float dy) { return dy * (kept * (1.0f - kept)); }
};

template <typename Function>
struct ForwardBody {
  const float* in;
  float* out;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    Floats<kWidth> x = Load<kWidth>(in + i);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) x.v[k] = Function::Value(x.v[k]);
    Store(x, out + i);
  }
};

template <typename Function>
struct BackwardBody {
  const float* kept;
  const float* output_gradient;
  float* input_gradient;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    const Floats<kWidth> x = Load<kWidth>(kept + i);
    Floats<kWidth> d = Load<kWidth>(output_gradient + i);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) d.v[k] = Function::Gradient(x.v[k], d.v[k]);
    Store(d, input_gradient + i);
  }
};

template <typename Function>
cudaError_t Forward(cudaStream_t stream, ConstMatrix in, float* out) {
  return ForElements(stream, ForwardBody<Function>{in.data, out}, in.size(),
                     Aligned16(in.data, out));
}

template <typename Function>
cudaError_t Backward(cudaStream_t stream, const float* kept, ConstMatrix output_gradient,
                     float* input_gradient) {
  return ForElements(stream, BackwardBody<Function>{kept, output_gradient.data, input_gradient},
                     output_gradient.size(), Aligned16(kept, output_gradient.data, input_gradient));
}

}  // namespace

cudaError_t Activate(cudaStream_t stream, Activation activation, ConstMatrix in, float* out) {
  switch (activation) {
    case Activation::kRelu:
      return Forward<Relu>(stream, in, out);
    case Activation::kGelu:
      return Forward<Gelu>(stream, in, out);
    case Activation::kTanh:
      return Forward<Tanh>(stream, in, out);
    case Activation::kSigmoid:
      return Forward<Sigmoid>(stream, in, out);
  }
  return cudaErrorInvalidValue;
}

cudaError_t ActivateBackward(cudaStream_t stream, Activation activation, const float* kept,
                             ConstMatrix output_gradient, float* input_gradient) {
  switch (activation) {
    case Activation::kRelu:
      return Backward<Relu>(stream, kept, output_gradient, input_gradient);
    case Activation::kGelu:
      return Backward<Gelu>(stream, kept, output_gradient, input_gradient);
    case Activation::kTanh:
      return Backward<Tanh>(stream, kept, output_gradient, input_gradient);
    case Activation::kSigmoid:
      return Backward<Sigmoid>(stream, kept, output_gradient, input_gradient);
  }
  return cudaErrorInvalidValue;
}

}  // namespace sangam::cuda_kernels
