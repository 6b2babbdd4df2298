#include "tests/cuda_on_cpu/include/cuda_on_cpu/launch.h"

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "tests/cuda_on_cpu/errors.h"
#include "tests/cuda_on_cpu/grid.h"
#include "tests/cuda_on_cpu/host_memory.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/limits.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/options.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/shared_variables.h"
#include "tests/cuda_on_cpu/streams.h"

namespace cuda_on_cpu {
namespace {

std::mutex mutex;
// Both protected by `mutex`.
std::map<const void*, size_t>& max_dynamic_bytes = *new std::map<const void*, size_t>;
std::pair<std::string, cudaError_t>& next_failure =
    *new std::pair<std::string, cudaError_t>("", cudaSuccess);

cudaError_t CheckShape(const LaunchShape& shape) {
  const dim3& grid = shape.grid;
  const dim3& block = shape.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
    return cudaErrorInvalidConfiguration;
  }
  if (grid.x > kMaxGridX || grid.y > kMaxGridYZ || grid.z > kMaxGridYZ) {
    return cudaErrorInvalidConfiguration;
  }
  if (block.x > kMaxThreadsPerBlock || block.y > kMaxThreadsPerBlock || block.z > kMaxBlockZ ||
      uint64_t{block.x} * block.y * block.z > kMaxThreadsPerBlock) {
    return cudaErrorInvalidConfiguration;
  }
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = max_dynamic_bytes.find(shape.function);
  const size_t static_bytes = FindSharedVariables(shape.function).own_bytes();
  const size_t allowed =
      found == max_dynamic_bytes.end() ? kSharedBytes : static_bytes + found->second;
  return static_bytes + shape.shared_bytes > allowed ? cudaErrorInvalidValue : cudaSuccess;
}

void CheckPointers(const LaunchShape& shape, const std::vector<PointerArgument>& pointers) {
  for (const PointerArgument& argument : pointers) {
    if (argument.value == nullptr || DeviceMemory::Get().Contains(argument.value, 0) ||
        PinnedMemory::Get().Contains(argument.value, 0)) {
      continue;
    }
    Fail(
        "kernel %s: argument %d (from 0) is %p, which is neither in device memory nor in pinned "
        "memory of the host",
        shape.kernel, argument.position, const_cast<const void*>(argument.value));
  }
}

// What the environment or FailNextLaunch has in store for this kernel.
cudaError_t TakeFailure(const char* kernel) {
  const std::string& failing = options().failing_kernel;
  if (!failing.empty() && std::strstr(kernel, failing.c_str()) != nullptr &&
      --options().launches_to_failure == 0) {
    return cudaErrorIllegalAddress;
  }
  std::lock_guard<std::mutex> lock(mutex);
  if (next_failure.second == cudaSuccess) return cudaSuccess;
  if (std::strstr(kernel, next_failure.first.c_str()) == nullptr) return cudaSuccess;
  return std::exchange(next_failure.second, cudaSuccess);
}

bool IsErrorOfCall(cudaError_t error) {
  return error == cudaErrorInvalidValue || error == cudaErrorInvalidConfiguration ||
         error == cudaErrorLaunchOutOfResources || error == cudaErrorMemoryAllocation ||
         error == cudaErrorInvalidDeviceFunction;
}

cudaError_t CheckAndPut(const LaunchShape& shape, const std::vector<PointerArgument>& pointers,
                        std::function<void()> body) {
  cudaError_t error = ReadyOnDevice();
  if (error == cudaSuccess) error = CheckShape(shape);
  if (error != cudaSuccess) return error;
  CheckPointers(shape, pointers);
  const cudaError_t failure = TakeFailure(shape.kernel);
  if (failure != cudaSuccess) {
    if (IsErrorOfCall(failure)) return failure;
    return Streams::Get().Put(shape.stream, {shape.kernel, [failure] { SetDeviceError(failure); }});
  }
  const GridOrder order{options().order, options().order_seed};
  return Streams::Get().Put(shape.stream, {shape.kernel, [shape, order, body = std::move(body)] {
                                             RunGrid(shape, order, body);
                                           }});
}

}  // namespace

cudaError_t Launch(const LaunchShape& shape, const std::vector<PointerArgument>& pointers,
                   std::function<void()> body) {
  return Return(CheckAndPut(shape, pointers, std::move(body)));
}

void FailNextLaunch(const char* name, cudaError_t error) {
  std::lock_guard<std::mutex> lock(mutex);
  next_failure = {name, error};
}

}  // namespace cuda_on_cpu

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  using namespace cuda_on_cpu;  // NOLINT(google-build-using-namespace): the API is global
  if (Ready() != cudaSuccess) return Return(Ready());
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      FindSharedVariables(kernel).own_bytes() + static_cast<size_t>(value) > kMaxSharedBytes) {
    return Return(cudaErrorInvalidValue);
  }
  std::lock_guard<std::mutex> lock(mutex);
  max_dynamic_bytes[kernel] = static_cast<size_t>(value);
  return cudaSuccess;
}
