#include "worker/backend/cuda/cuda_status.h"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "worker/backend/device_lost.h"

namespace sangam {

absl::Status CudaStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  const std::string text = absl::StrCat("cuda: ", what, ": ", cudaGetErrorString(error), " (",
                                        cudaGetErrorName(error), ")");
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(text);
  return EndsTheDevice(error) ? DeviceLost(text) : absl::InternalError(text);
}

absl::Status CublasStatus(cublasStatus_t status, absl::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  cudaGetLastError();
  const std::string text = absl::StrCat("cuBLAS: ", what, ": ", cublasLtGetStatusString(status),
                                        " (", cublasLtGetStatusName(status), ")");
  if (status == CUBLAS_STATUS_ALLOC_FAILED) return absl::ResourceExhaustedError(text);
  return absl::InternalError(text);
}

absl::Status NoDeviceMemory(int64_t bytes) {
  size_t free = 0;
  size_t total = 0;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess) {
    cudaGetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat("cuda: no memory for ", bytes, " bytes on the device"));
  }
  return absl::ResourceExhaustedError(absl::StrCat("cuda: no memory for ", bytes, " bytes: device ",
                                                   device, " has ", free, " bytes free of ",
                                                   total));
}

bool EndsTheDevice(cudaError_t error) {
  // Those after which the runtime says that the process has to be started anew.
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorHardwareStackError:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorAssert:
    case cudaErrorMpsClientTerminated:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace sangam
