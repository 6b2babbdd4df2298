#ifndef SANGAM_WORKER_BACKEND_CPU_NUMBER_LOSSES_H_
#define SANGAM_WORKER_BACKEND_CPU_NUMBER_LOSSES_H_

#include "worker/backend/backend.h"
#include "worker/backend/views.h"

// Losses whose targets are numbers; as in Backend, which checks the arguments. `gradient` may be
// `outputs` or nullptr.
namespace sangam::cpu_kernels {

double SquaredError(ConstMatrix outputs, const float* targets, float* gradient);

ClassificationSums BinaryCrossEntropy(ConstMatrix outputs, const float* targets, float* gradient);

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_NUMBER_LOSSES_H_
