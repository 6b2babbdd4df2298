#ifndef SANGAM_WORKER_BACKEND_CPU_LAYER_NORM_H_
#define SANGAM_WORKER_BACKEND_CPU_LAYER_NORM_H_

#include "worker/backend/views.h"

// As in Backend; arguments are checked there, no output overlaps another matrix. Sums over columns
// go lane by lane (lanes.h), sums over rows row after row.
namespace sangam::cpu_kernels {

void LayerNorm(ConstMatrix in, const float* gain, const float* bias, float epsilon, float* out,
               float* mean, float* inverse_deviation);

void LayerNormBackward(ConstMatrix in, const float* gain, const float* mean,
                       const float* inverse_deviation, const float* output_gradient,
                       float* input_gradient);

void LayerNormParameterGradients(ConstMatrix in, const float* mean, const float* inverse_deviation,
                                 const float* output_gradient, bool accumulate,
                                 float* gain_gradient, float* bias_gradient);

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_LAYER_NORM_H_
