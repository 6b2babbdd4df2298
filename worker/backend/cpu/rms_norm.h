#ifndef SANGAM_WORKER_BACKEND_CPU_RMS_NORM_H_
#define SANGAM_WORKER_BACKEND_CPU_RMS_NORM_H_

#include "worker/backend/views.h"

// As in Backend; arguments are checked there, no output overlaps another matrix. Sums over columns
// go lane by lane (lanes.h), sums over rows row after row.
namespace sangam::cpu_kernels {

void RmsNorm(ConstMatrix in, const float* gain, float epsilon, float* out, float* inverse_rms);

void RmsNormBackward(ConstMatrix in, const float* gain, const float* inverse_rms,
                     const float* output_gradient, float* input_gradient);

void RmsNormGainGradient(ConstMatrix in, const float* inverse_rms, const float* output_gradient,
                         bool accumulate, float* gain_gradient);

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_RMS_NORM_H_
