#include "worker/backend/cpu/rms_norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "worker/backend/cpu/kernel.h"
#include "worker/backend/cpu/lanes.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {

SANGAM_CPU_KERNEL
void RmsNorm(ConstMatrix in, const float* gain, float epsilon, float* out, float* inverse_rms) {
  const auto cols = static_cast<float>(in.cols);
  for (int64_t i = 0; i < in.rows; ++i) {
    const float* x = in.data + i * in.cols;
    float* y = out + i * in.cols;
    const float sum = SumInLanes(in.cols, [x](int64_t j) { return x[j] * x[j]; });
    const float s = 1.0f / std::sqrt(sum / cols + epsilon);
    for (int64_t j = 0; j < in.cols; ++j) y[j] = (gain[j] * x[j]) * s;
    inverse_rms[i] = s;
  }
}

SANGAM_CPU_KERNEL
void RmsNormBackward(ConstMatrix in, const float* gain, const float* inverse_rms,
                     const float* output_gradient, float* input_gradient) {
  const auto cols = static_cast<float>(in.cols);
  for (int64_t i = 0; i < in.rows; ++i) {
    const float* x = in.data + i * in.cols;
    const float* dy = output_gradient + i * in.cols;
    float* dx = input_gradient + i * in.cols;
    const float s = inverse_rms[i];
    const float sum = SumInLanes(in.cols, [=](int64_t j) { return (gain[j] * dy[j]) * x[j]; });
    const float along_x = ((s * s) * s) * (sum / cols);
    for (int64_t j = 0; j < in.cols; ++j) dx[j] = s * (gain[j] * dy[j]) - x[j] * along_x;
  }
}

SANGAM_CPU_KERNEL
void RmsNormGainGradient(ConstMatrix in, const float* inverse_rms, const float* output_gradient,
                         bool accumulate, float* gain_gradient) {
  if (!accumulate) std::fill_n(gain_gradient, in.cols, 0.0f);
  for (int64_t i = 0; i < in.rows; ++i) {
    const float* x = in.data + i * in.cols;
    const float* dy = output_gradient + i * in.cols;
    const float s = inverse_rms[i];
    for (int64_t j = 0; j < in.cols; ++j) gain_gradient[j] += (dy[j] * x[j]) * s;
  }
}

}  // namespace sangam::cpu_kernels
