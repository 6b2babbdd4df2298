#ifndef SANGAM_WORKER_BACKEND_CUDA_CUDA_BACKEND_H_
#define SANGAM_WORKER_BACKEND_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/precision.h"

namespace sangam {

// The backend "cuda": one lane on a GPU of NVIDIA's. Programs that link this have it (backends.h).
// Calls return when the work is in a stream of the lane's; several lanes work beside one another on
// one device, of which each has memory of its own.
//
// Errors: FailedPrecondition  there is no such device; says why
//         ResourceExhausted, Internal
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(int device,
                                                           Precision precision = Precision::kFp32);

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_CUDA_BACKEND_H_
