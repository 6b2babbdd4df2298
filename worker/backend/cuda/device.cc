#include "worker/backend/cuda/device.h"

#include <cuda_runtime.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/backend/backends.h"

namespace sangam {
namespace {

// Kernels are built for A100 and what came after it (tools/build/cuda.bzl).
constexpr int kLeastMajor = 8;

// "13.0" of CUDA's 13000.
std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// The versions for a message: drivers run programs of their own CUDA and older ones.
std::string Versions() {
  int driver = 0;
  int runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) runtime = 0;
  cudaGetLastError();
  return absl::StrCat(driver == 0
                          ? "there is no driver"
                          : absl::StrCat("the driver supports CUDA up to ", VersionText(driver)),
                      ", this program was built with CUDA ", VersionText(runtime));
}

absl::Status Check(cudaError_t error, int device, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  return absl::FailedPreconditionError(absl::StrCat(
      "cuda device ", device, " cannot be used: ", call, " says \"", cudaGetErrorString(error),
      "\" (", cudaGetErrorName(error), "); ", Versions(), "; nvidia-smi shows what there is"));
}

}  // namespace

absl::StatusOr<CudaDevice> OpenCudaDevice(int device) {
  int count = 0;
  RETURN_IF_ERROR(Check(cudaGetDeviceCount(&count), device, "cudaGetDeviceCount"));
  if (device < 0 || device >= count) {
    return absl::FailedPreconditionError(
        absl::StrCat("cuda device ", device, " cannot be used: this machine has ", count,
                     " devices, counted from 0; nvidia-smi -L shows them"));
  }
  cudaDeviceProp properties = {};
  RETURN_IF_ERROR(
      Check(cudaGetDeviceProperties(&properties, device), device, "cudaGetDeviceProperties"));
  RETURN_IF_ERROR(Check(cudaSetDevice(device), device, "cudaSetDevice"));
  // The first call that needs the device, so that nobody is surprised by what it says.
  RETURN_IF_ERROR(Check(cudaFree(nullptr), device, "starting it"));
  CudaDevice result;
  result.compute_major = properties.major;
  result.compute_minor = properties.minor;
  result.facts.name = properties.name;
  result.facts.memory_bytes = properties.totalGlobalMem;
  result.facts.compute_capability = absl::StrCat(properties.major, ".", properties.minor);
  int driver = 0;
  int runtime = 0;
  RETURN_IF_ERROR(Check(cudaDriverGetVersion(&driver), device, "cudaDriverGetVersion"));
  RETURN_IF_ERROR(Check(cudaRuntimeGetVersion(&runtime), device, "cudaRuntimeGetVersion"));
  result.facts.driver = VersionText(driver);
  result.facts.runtime = VersionText(runtime);
  if (properties.major < kLeastMajor) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cuda device ", device, " cannot be used: ", properties.name, " has compute capability ",
        result.facts.compute_capability, ", expected at least ", kLeastMajor, ".0"));
  }
  return result;
}

}  // namespace sangam
