#ifndef TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_CONTROL_H_
#define TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_CONTROL_H_

// What a test may ask of the stand-in. Each setting has an environment variable, read once, for
// whole programs:
//
//   CUDA_ON_CPU_ORDER    forward | reverse | random:SEED   of blocks and their threads
//   CUDA_ON_CPU_STREAMS  lazy | eager | random:SEED        when streams do their work
//   CUDA_ON_CPU_STRICT   1                                 the host may not touch device memory
//   CUDA_ON_CPU_PAGEABLE staged | late                     when copies of memory that is not pinned
//                                                          are done
//   CUDA_ON_CPU_DEVICE   given | chosen                    what a thread has that chose no device
//   CUDA_ON_CPU_MEMORY   BYTES                             of the device
//   CUDA_ON_CPU_FAIL     NAME:N                            the Nth kernel whose name contains NAME
//                                                          accesses an illegal address

#include <cstddef>
#include <cstdint>

#include "../driver_types.h"

namespace cuda_on_cpu {

enum class Order { kForward, kReverse, kRandom };

// For kernels that are launched from now on. Right kernels give the same result in every order.
void SetOrder(Order order, uint64_t seed = 0);

// kLazy: only when somebody waits for it. kEager: at once. kRandom: anything between.
enum class StreamMode { kLazy, kEager, kRandom };

void SetStreamMode(StreamMode mode, uint64_t seed = 0);

// Device memory can only be touched while a kernel or a copy runs, and what each wrote beside an
// allocation is found when it ends. Costs two system calls an allocation and operation.
void SetStrict(bool strict);

// kStaged: a copy from pageable memory has read it, and one to it is done, when the call returns:
// so do most machines. kLate: when the stream comes to it, as with pinned memory, for the call
// promises no more.
enum class PageableMode { kStaged, kLate };

void SetPageableMode(PageableMode mode);

// Whether a thread that did not call cudaSetDevice has device 0, as on every machine. Where there
// are several that is mostly not the right one, and is started for nothing: without it calls that
// need a device fail with cudaErrorInvalidDevice.
void SetDeviceIsGiven(bool given);

// The size of the device's memory. What is allocated already stays.
void SetDeviceMemory(size_t bytes);

// The next kernel whose name contains `name` fails. Errors of a launch's own arguments are returned
// by it and are over; all others come when the kernel runs, and every later call returns them until
// cudaDeviceReset.
void FailNextLaunch(const char* name, cudaError_t error);

// The next launch of a graph fails, and is over.
void FailNextGraphLaunch(cudaError_t error);

// Operations that are in streams and not done.
size_t PendingOperations();

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_CONTROL_H_
