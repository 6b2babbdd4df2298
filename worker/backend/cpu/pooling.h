#ifndef SANGAM_WORKER_BACKEND_CPU_POOLING_H_
#define SANGAM_WORKER_BACKEND_CPU_POOLING_H_

#include "worker/backend/backend.h"
#include "worker/backend/views.h"

// As in Backend; arguments are checked there, no output overlaps another matrix. NaN is the largest
// of all.
namespace sangam::cpu_kernels {

void MaxPool2d(const WindowShape& shape, ConstMatrix in, float* out);

void MaxPool2dBackward(const WindowShape& shape, ConstMatrix in, const float* out,
                       const float* output_gradient, float* input_gradient);

void AveragePool2d(const WindowShape& shape, ConstMatrix in, float* out);

void AveragePool2dBackward(const WindowShape& shape, ConstMatrix output_gradient,
                           float* input_gradient);

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_POOLING_H_
