#include "worker/backend/cpu/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "worker/backend/cpu/kernel.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {
namespace {

// Columns whose sums are kept at once.
constexpr int64_t kBlock = 64;

SANGAM_CPU_INLINE float InverseDeviation(float variance, float epsilon) {
  return 1.0f / std::sqrt(variance + epsilon);
}

}  // namespace

SANGAM_CPU_KERNEL
void ColumnMoments(ConstMatrix in, float* mean, float* variance) {
  const auto rows = static_cast<double>(in.rows);
  for (int64_t first = 0; first < in.cols; first += kBlock) {
    const int64_t count = std::min(kBlock, in.cols - first);
    double sums[kBlock] = {};
    double means[kBlock];
    for (int64_t r = 0; r < in.rows; ++r) {
      const float* x = in.data + r * in.cols + first;
      for (int64_t j = 0; j < count; ++j) sums[j] += double{x[j]};
    }
    for (int64_t j = 0; j < count; ++j) {
      means[j] = sums[j] / rows;
      mean[first + j] = static_cast<float>(means[j]);
      sums[j] = 0;
    }
    for (int64_t r = 0; r < in.rows; ++r) {
      const float* x = in.data + r * in.cols + first;
      for (int64_t j = 0; j < count; ++j) {
        const double from_mean = double{x[j]} - means[j];
        sums[j] += from_mean * from_mean;
      }
    }
    for (int64_t j = 0; j < count; ++j) variance[first + j] = static_cast<float>(sums[j] / rows);
  }
}

SANGAM_CPU_KERNEL
void NormalizeColumns(ConstMatrix in, const float* mean, const float* variance, float epsilon,
                      const float* gain, const float* bias, float* out) {
  for (int64_t first = 0; first < in.cols; first += kBlock) {
    const int64_t count = std::min(kBlock, in.cols - first);
    float scale[kBlock];
    for (int64_t j = 0; j < count; ++j) {
      scale[j] = gain[first + j] * InverseDeviation(variance[first + j], epsilon);
    }
    for (int64_t r = 0; r < in.rows; ++r) {
      const float* x = in.data + r * in.cols + first;
      float* y = out + r * in.cols + first;
      for (int64_t j = 0; j < count; ++j) {
        y[j] = (x[j] - mean[first + j]) * scale[j] + bias[first + j];
      }
    }
  }
}

SANGAM_CPU_KERNEL
void BatchNormSums(ConstMatrix in, const float* mean, const float* variance, float epsilon,
                   const float* output_gradient, float* sums) {
  for (int64_t first = 0; first < in.cols; first += kBlock) {
    const int64_t count = std::min(kBlock, in.cols - first);
    double along_x[kBlock] = {};
    double all[kBlock] = {};
    for (int64_t r = 0; r < in.rows; ++r) {
      const float* x = in.data + r * in.cols + first;
      const float* dy = output_gradient + r * in.cols + first;
      for (int64_t j = 0; j < count; ++j) {
        along_x[j] += double{dy[j] * (x[j] - mean[first + j])};
        all[j] += double{dy[j]};
      }
    }
    for (int64_t j = 0; j < count; ++j) {
      const double s = double{InverseDeviation(variance[first + j], epsilon)};
      sums[first + j] = static_cast<float>(along_x[j] * s);
      sums[in.cols + first + j] = static_cast<float>(all[j]);
    }
  }
}

SANGAM_CPU_KERNEL
void BatchNormBackward(ConstMatrix in, const float* mean, const float* variance, float epsilon,
                       const float* gain, const float* sums, const float* output_gradient,
                       float* input_gradient) {
  const auto rows = static_cast<float>(in.rows);
  for (int64_t first = 0; first < in.cols; first += kBlock) {
    const int64_t count = std::min(kBlock, in.cols - first);
    float scale[kBlock];
    float along_x[kBlock];
    float all[kBlock];
    for (int64_t j = 0; j < count; ++j) {
      const float s = InverseDeviation(variance[first + j], epsilon);
      scale[j] = gain[first + j] * s;
      along_x[j] = s * (sums[first + j] / rows);
      all[j] = sums[in.cols + first + j] / rows;
    }
    for (int64_t r = 0; r < in.rows; ++r) {
      const float* x = in.data + r * in.cols + first;
      const float* dy = output_gradient + r * in.cols + first;
      float* dx = input_gradient + r * in.cols + first;
      for (int64_t j = 0; j < count; ++j) {
        dx[j] = scale[j] * ((dy[j] - all[j]) - (x[j] - mean[first + j]) * along_x[j]);
      }
    }
  }
}

}  // namespace sangam::cpu_kernels
