#ifndef TESTS_CUDA_ON_CPU_MEMORY_H_
#define TESTS_CUDA_ON_CPU_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>

#include "tests/cuda_on_cpu/include/driver_types.h"

namespace cuda_on_cpu {

// The device's memory. Each allocation lies between two pages that cannot be touched, its end at
// the second; what is left of its first and last page holds garbage that is looked at later.
// Thread-safe.
class DeviceMemory {
 public:
  static DeviceMemory& Get();

  cudaError_t Allocate(void** pointer, size_t bytes);
  // What is freed cannot be touched any more, until thousands more have been freed.
  cudaError_t Free(void* pointer);
  void FreeAll();

  size_t allocated_bytes();

  // Whether [pointer, pointer + bytes) lies in one allocation. Its end is an empty part of it.
  bool Contains(const volatile void* pointer, size_t bytes);

  // Reports an allocation beside which something was written.
  void CheckEdges();

  // Around all that touches device memory, if the host may not (control.h). May be nested and from
  // several threads.
  void BeginAccess();
  void EndAccess();
  void SetStrict(bool strict);
  bool strict();

  // For a signal handler: what is known of an address. False if the device has nothing to do with
  // it. Takes no lock.
  bool Describe(uintptr_t address, char* text, size_t size) const;

 private:
  struct Allocation {
    uintptr_t mapping;  // of the guard page in front
    size_t mapping_bytes;
    size_t bytes;
  };
  using Allocations = std::map<uintptr_t, Allocation>;

  void CheckEdgesOf(uintptr_t start, const Allocation& allocation);
  void Retire(Allocations::iterator allocation);
  void ProtectAll(int protection);
  void BeginAccessLocked();
  void EndAccessLocked();

  std::mutex mutex_;
  // Below: protected by mutex_.
  Allocations live_;  // by start
  std::deque<std::pair<uintptr_t, Allocation>> freed_;
  size_t allocated_bytes_ = 0;
  bool strict_ = false;
  int accesses_ = 0;
};

// For the time of one operation.
class DeviceAccess {
 public:
  DeviceAccess() { DeviceMemory::Get().BeginAccess(); }
  ~DeviceAccess() { DeviceMemory::Get().EndAccess(); }
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_MEMORY_H_
