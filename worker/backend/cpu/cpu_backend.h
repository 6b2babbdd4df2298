#ifndef SANGAM_WORKER_BACKEND_CPU_CPU_BACKEND_H_
#define SANGAM_WORKER_BACKEND_CPU_CPU_BACKEND_H_

#include <memory>

#include "worker/backend/backend.h"
#include "worker/backend/precision.h"

namespace sangam {

// The backend "cpu": matrix products by oneDNN, the rest by loops of our own. Its memory is the
// host's. All work is done on the calling thread before the call returns; the object may move from
// thread to thread. Makes the calling thread's OpenMP teams as large as one thread.
std::unique_ptr<Backend> CreateCpuBackend(Precision precision = Precision::kFp32);

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CPU_CPU_BACKEND_H_
