#include "tests/cuda_on_cpu/operation.h"

#include "tests/cuda_on_cpu/errors.h"
#include "tests/cuda_on_cpu/faults.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/report.h"

namespace cuda_on_cpu {

void RunOperation(const Operation& operation) {
  if (DeviceError() != cudaSuccess) return;
  if (operation.on_host) {
    in_host_function = true;
    operation.run();
    in_host_function = false;
    return;
  }
  UseOwnSignalStack();
  DeviceAccess access;
  running_operation = operation.name;
  operation.run();
  // While it is still known who did it.
  if (DeviceMemory::Get().strict()) DeviceMemory::Get().CheckEdges();
  running_operation = nullptr;
}

}  // namespace cuda_on_cpu
