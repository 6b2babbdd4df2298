#ifndef SANGAM_WORKER_BACKEND_CUDA_DEVICE_H_
#define SANGAM_WORKER_BACKEND_CUDA_DEVICE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/backends.h"

namespace sangam {

// What kernels and cuBLAS make use of.
struct CudaDevice {
  BackendDevice facts;
  int compute_major = 0;  // of the compute capability
  int compute_minor = 0;
};

// Device number `device` of this machine, ready for work, and current on the calling thread.
// Errors: FailedPrecondition  there is none, or none that this program has kernels for; says what
//                             the driver said and where to look
absl::StatusOr<CudaDevice> OpenCudaDevice(int device);

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_DEVICE_H_
