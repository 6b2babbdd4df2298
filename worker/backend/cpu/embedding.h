#ifndef SANGAM_WORKER_BACKEND_CPU_EMBEDDING_H_
#define SANGAM_WORKER_BACKEND_CPU_EMBEDDING_H_

#include "absl/status/status.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {

// As in Backend; shapes are checked there, tokens here.
absl::Status Lookup(ConstMatrix tokens, ConstMatrix table, float* out);
absl::Status LookupBackward(ConstMatrix tokens, ConstMatrix output_gradient, Matrix table_gradient);

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_EMBEDDING_H_
