#include "worker/backend/cpu/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "worker/backend/cpu/kernel.h"
#include "worker/backend/cpu/lanes.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {

SANGAM_CPU_KERNEL
void LayerNorm(ConstMatrix in, const float* gain, const float* bias, float epsilon, float* out,
               float* mean, float* inverse_deviation) {
  const auto cols = static_cast<float>(in.cols);
  for (int64_t i = 0; i < in.rows; ++i) {
    const float* x = in.data + i * in.cols;
    float* y = out + i * in.cols;
    const float m = SumInLanes(in.cols, [x](int64_t j) { return x[j]; }) / cols;
    const float variance =
        SumInLanes(in.cols, [x, m](int64_t j) { return (x[j] - m) * (x[j] - m); }) / cols;
    const float s = 1.0f / std::sqrt(variance + epsilon);
    for (int64_t j = 0; j < in.cols; ++j) y[j] = (gain[j] * (x[j] - m)) * s + bias[j];
    mean[i] = m;
    inverse_deviation[i] = s;
  }
}

SANGAM_CPU_KERNEL
void LayerNormBackward(ConstMatrix in, const float* gain, const float* mean,
                       const float* inverse_deviation, const float* output_gradient,
                       float* input_gradient) {
  const auto cols = static_cast<float>(in.cols);
  for (int64_t i = 0; i < in.rows; ++i) {
    const float* x = in.data + i * in.cols;
    const float* dy = output_gradient + i * in.cols;
    float* dx = input_gradient + i * in.cols;
    const float m = mean[i];
    const float s = inverse_deviation[i];
    const float all = SumInLanes(in.cols, [=](int64_t j) { return gain[j] * dy[j]; }) / cols;
    const float sum =
        SumInLanes(in.cols, [=](int64_t j) { return (gain[j] * dy[j]) * (x[j] - m); });
    const float along_x = (s * s) * (sum / cols);
    for (int64_t j = 0; j < in.cols; ++j) {
      dx[j] = s * ((gain[j] * dy[j] - all) - (x[j] - m) * along_x);
    }
  }
}

SANGAM_CPU_KERNEL
void LayerNormParameterGradients(ConstMatrix in, const float* mean, const float* inverse_deviation,
                                 const float* output_gradient, bool accumulate,
                                 float* gain_gradient, float* bias_gradient) {
  if (!accumulate) {
    std::fill_n(gain_gradient, in.cols, 0.0f);
    std::fill_n(bias_gradient, in.cols, 0.0f);
  }
  for (int64_t i = 0; i < in.rows; ++i) {
    const float* x = in.data + i * in.cols;
    const float* dy = output_gradient + i * in.cols;
    const float m = mean[i];
    const float s = inverse_deviation[i];
    for (int64_t j = 0; j < in.cols; ++j) {
      gain_gradient[j] += (dy[j] * (x[j] - m)) * s;
      bias_gradient[j] += dy[j];
    }
  }
}

}  // namespace sangam::cpu_kernels
