#ifndef SANGAM_WORKER_BACKEND_CPU_SOFTMAX_H_
#define SANGAM_WORKER_BACKEND_CPU_SOFTMAX_H_

#include <cstdint>

#include "worker/backend/backend.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {

// As Backend::SoftmaxCrossEntropy; arguments are checked there. `gradient` may be nullptr or the
// logits themselves.
ClassificationSums SoftmaxCrossEntropy(ConstMatrix logits, const uint32_t* labels, float* gradient);

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_SOFTMAX_H_
