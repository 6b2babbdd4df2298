#ifndef TESTS_CUDA_ON_CPU_HOST_MEMORY_H_
#define TESTS_CUDA_ON_CPU_HOST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "tests/cuda_on_cpu/include/driver_types.h"

namespace cuda_on_cpu {

// The host's memory that the device can reach by itself: allocated so, or registered. Thread-safe.
class PinnedMemory {
 public:
  static PinnedMemory& Get();

  cudaError_t Allocate(void** pointer, size_t bytes);
  cudaError_t Free(void* pointer);
  cudaError_t Register(void* pointer, size_t bytes);
  cudaError_t Unregister(void* pointer);

  // Whether all of [pointer, pointer + bytes) is pinned.
  bool Contains(const volatile void* pointer, size_t bytes);

 private:
  struct Range {
    size_t bytes;
    bool allocated;
  };

  bool ContainsLocked(uintptr_t address, size_t bytes) const;

  std::mutex mutex_;
  std::map<uintptr_t, Range> ranges_;  // by start; protected by mutex_
};

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_HOST_MEMORY_H_
