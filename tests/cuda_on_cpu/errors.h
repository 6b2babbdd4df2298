#ifndef TESTS_CUDA_ON_CPU_ERRORS_H_
#define TESTS_CUDA_ON_CPU_ERRORS_H_

#include "tests/cuda_on_cpu/include/driver_types.h"

namespace cuda_on_cpu {

// Keeps an error for cudaGetLastError of this thread and returns it: how every function of the API
// ends.
cudaError_t Return(cudaError_t error);

// The error of a kernel that failed, after which the device does no more work; cudaSuccess while
// there is none.
cudaError_t DeviceError();
void SetDeviceError(cudaError_t error);

// Set while a function of cudaLaunchHostFunc runs, which may not call the API.
extern __thread bool in_host_function;

// What every call that is not about errors starts with.
cudaError_t Ready();

// Set when the thread has called cudaSetDevice.
extern __thread bool chose_device;

// Ready, of calls that work with the thread's device.
cudaError_t ReadyOnDevice();

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_ERRORS_H_
