#include "worker/backend/cuda/device_memory.h"

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/backend/cuda/cuda_status.h"

namespace sangam {
namespace {

std::atomic<int64_t> num_allocations{0};

cudaError_t Get(OnDevice, void** data, size_t bytes) { return cudaMalloc(data, bytes); }
cudaError_t Get(OnHost, void** data, size_t bytes) {
  return cudaHostAlloc(data, bytes, cudaHostAllocDefault);
}
void Release(OnDevice, void* data) { cudaFree(data); }
void Release(OnHost, void* data) { cudaFreeHost(data); }

absl::Status NoMemory(OnDevice, int64_t bytes) { return NoDeviceMemory(bytes); }
absl::Status NoMemory(OnHost, int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cuda: no memory for ", bytes, " bytes that stay in the host's memory"));
}

}  // namespace

template <typename Kind>
absl::StatusOr<CudaBuffer<Kind>> CudaBuffer<Kind>::Allocate(int64_t bytes) {
  if (bytes == 0) return CudaBuffer();
  void* data = nullptr;
  const cudaError_t error = Get(Kind(), &data, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return NoMemory(Kind(), bytes);
  }
  RETURN_IF_ERROR(CudaStatus(error, absl::StrCat("memory for ", bytes, " bytes")));
  ++num_allocations;
  return CudaBuffer(data, bytes);
}

// What freeing may say is of no use to anybody any more; it must not be taken for a later call's.
template <typename Kind>
CudaBuffer<Kind>::~CudaBuffer() {
  if (data_ == nullptr) return;
  Release(Kind(), data_);
  cudaGetLastError();
}

template class CudaBuffer<OnDevice>;
template class CudaBuffer<OnHost>;

int64_t NumCudaAllocations() { return num_allocations; }

}  // namespace sangam
