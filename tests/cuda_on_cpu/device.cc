// The functions of the API about the device and its memory.

#include <cstring>

#include "tests/cuda_on_cpu/errors.h"
#include "tests/cuda_on_cpu/host_memory.h"
#include "tests/cuda_on_cpu/include/cuda_runtime_api.h"
#include "tests/cuda_on_cpu/limits.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/options.h"
#include "tests/cuda_on_cpu/streams.h"

using cuda_on_cpu::DeviceMemory;
using cuda_on_cpu::PinnedMemory;
using cuda_on_cpu::Ready;
using cuda_on_cpu::Return;
using cuda_on_cpu::Streams;

namespace {

constexpr int kMultiProcessors = 8;

// For calls that a capture does not allow.
cudaError_t ReadyOutsideCapture() {
  const cudaError_t error = cuda_on_cpu::ReadyOnDevice();
  return error != cudaSuccess ? error : Streams::Get().CheckNoCapture();
}

template <typename Call>
cudaError_t Checked(cudaError_t ready, Call call) {
  return Return(ready != cudaSuccess ? ready : call());
}

cudaError_t Synchronize() {
  const cudaError_t error = Streams::Get().WaitForAll();
  DeviceMemory::Get().CheckEdges();
  return error;
}

}  // namespace

cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return Return(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaGetDeviceCount(int* count) {
  return Checked(Ready(), [&] {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return Checked(Ready(), [&] {
    if (device != 0) return cudaErrorInvalidDevice;
    cuda_on_cpu::chose_device = true;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return Checked(Ready(), [&] {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return Checked(Ready(), [&] {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (device != 0) return cudaErrorInvalidDevice;
    *properties = cudaDeviceProp{};
    std::strncpy(properties->name, "CUDA on CPU", sizeof properties->name - 1);
    properties->totalGlobalMem = cuda_on_cpu::options().memory_bytes;
    properties->sharedMemPerBlock = cuda_on_cpu::kSharedBytes;
    properties->regsPerBlock = 65536;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = cuda_on_cpu::kMaxThreadsPerBlock;
    properties->maxThreadsDim[0] = cuda_on_cpu::kMaxThreadsPerBlock;
    properties->maxThreadsDim[1] = cuda_on_cpu::kMaxThreadsPerBlock;
    properties->maxThreadsDim[2] = cuda_on_cpu::kMaxBlockZ;
    properties->maxGridSize[0] = cuda_on_cpu::kMaxGridX;
    properties->maxGridSize[1] = cuda_on_cpu::kMaxGridYZ;
    properties->maxGridSize[2] = cuda_on_cpu::kMaxGridYZ;
    properties->major = 9;
    properties->minor = 0;
    properties->multiProcessorCount = kMultiProcessors;
    properties->concurrentKernels = 1;
    properties->asyncEngineCount = 2;
    properties->unifiedAddressing = 1;
    properties->l2CacheSize = 1 << 20;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->sharedMemPerMultiprocessor = cuda_on_cpu::kMaxSharedBytes + 1024;
    properties->sharedMemPerBlockOptin = cuda_on_cpu::kMaxSharedBytes;
    properties->hostRegisterSupported = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return error;
  if (value == nullptr) return Return(cudaErrorInvalidValue);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      return cudaSuccess;
    case cudaDevAttrMaxGridDimX:
      *value = properties.maxGridSize[0];
      return cudaSuccess;
    case cudaDevAttrMaxGridDimY:
      *value = properties.maxGridSize[1];
      return cudaSuccess;
    case cudaDevAttrMaxGridDimZ:
      *value = properties.maxGridSize[2];
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(properties.sharedMemPerMultiprocessor);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
  }
  return Return(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Checked(Ready(), [&] {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() { return Checked(ReadyOutsideCapture(), Synchronize); }

cudaError_t cudaDeviceReset() {
  Streams::Get().Reset();
  DeviceMemory::Get().FreeAll();
  cuda_on_cpu::SetDeviceError(cudaSuccess);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return Checked(ReadyOutsideCapture(),
                 [&] { return DeviceMemory::Get().Allocate(pointer, bytes); });
}

// Waits for the device, as the real one does.
cudaError_t cudaFree(void* pointer) {
  return Checked(ReadyOutsideCapture(), [&] {
    const cudaError_t error = Synchronize();
    return error != cudaSuccess ? error : DeviceMemory::Get().Free(pointer);
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return Checked(Ready(), [&] {
    if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
    *total = cuda_on_cpu::options().memory_bytes;
    const size_t used = DeviceMemory::Get().allocated_bytes();
    *free = used < *total ? *total - used : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  return Checked(ReadyOutsideCapture(), [&] {
    const unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    if ((flags & ~known) != 0) return cudaErrorInvalidValue;
    return PinnedMemory::Get().Allocate(pointer, bytes);
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* pointer) {
  return Checked(ReadyOutsideCapture(), [&] {
    const cudaError_t error = Synchronize();
    return error != cudaSuccess ? error : PinnedMemory::Get().Free(pointer);
  });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  return Checked(ReadyOutsideCapture(), [&] {
    const unsigned known =
        cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly;
    if ((flags & ~known) != 0) return cudaErrorInvalidValue;
    return PinnedMemory::Get().Register(pointer, bytes);
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return Checked(ReadyOutsideCapture(), [&] {
    const cudaError_t error = Synchronize();
    return error != cudaSuccess ? error : PinnedMemory::Get().Unregister(pointer);
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return Checked(Ready(), [&] {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    void* const address = const_cast<void*>(pointer);
    if (DeviceMemory::Get().Contains(pointer, 1)) {
      *attributes = {cudaMemoryTypeDevice, 0, address, nullptr};
    } else if (PinnedMemory::Get().Contains(pointer, 1)) {
      *attributes = {cudaMemoryTypeHost, 0, address, address};
    } else {
      *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, address};
    }
    return cudaSuccess;
  });
}
