#ifndef SANGAM_WORKER_BACKEND_CUDA_CUDA_STATUS_H_
#define SANGAM_WORKER_BACKEND_CUDA_CUDA_STATUS_H_

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// The one place where what CUDA says becomes a Status.
namespace sangam {

// `what`: the call or operation that gave `error`. CUDA keeps the last error for whoever asks next:
// it is taken from there, so that a later operation is not blamed for it.
//   ResourceExhausted  no memory
//   Internal           all else; marked (device_lost.h) where the device is lost with it
absl::Status CudaStatus(cudaError_t error, absl::string_view what);

absl::Status CublasStatus(cublasStatus_t status, absl::string_view what);

// Memory of the current device that cannot be had: names what was asked for, and what there is.
absl::Status NoDeviceMemory(int64_t bytes);

// Whether the device can do nothing more for this process. What was wrong with a call alone, its
// sizes or the memory that it asked for, is over with the call.
bool EndsTheDevice(cudaError_t error);

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_CUDA_STATUS_H_
