#ifndef SANGAM_WORKER_BACKEND_CPU_BATCH_NORM_H_
#define SANGAM_WORKER_BACKEND_CPU_BATCH_NORM_H_

#include "worker/backend/views.h"

// As in Backend; arguments are checked there. Sums over rows go row after row, in double: images
// have so many pixels that single precision would lose digits.
namespace sangam::cpu_kernels {

void ColumnMoments(ConstMatrix in, float* mean, float* variance);

void NormalizeColumns(ConstMatrix in, const float* mean, const float* variance, float epsilon,
                      const float* gain, const float* bias, float* out);

void BatchNormSums(ConstMatrix in, const float* mean, const float* variance, float epsilon,
                   const float* output_gradient, float* sums);

void BatchNormBackward(ConstMatrix in, const float* mean, const float* variance, float epsilon,
                       const float* gain, const float* sums, const float* output_gradient,
                       float* input_gradient);

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_BATCH_NORM_H_
