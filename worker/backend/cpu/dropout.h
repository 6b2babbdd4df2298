#ifndef SANGAM_WORKER_BACKEND_CPU_DROPOUT_H_
#define SANGAM_WORKER_BACKEND_CPU_DROPOUT_H_

#include "worker/backend/backend.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {

// As Backend::Dropout; arguments are checked there. `out` may be `in`.
void Dropout(const DropoutAddress& address, float rate, ConstMatrix in, float* out);

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_DROPOUT_H_
