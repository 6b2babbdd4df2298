#include "tests/cuda_on_cpu/host_memory.h"

#include <cstdlib>

#include "tests/cuda_on_cpu/garbage.h"

namespace cuda_on_cpu {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

PinnedMemory& PinnedMemory::Get() {
  static PinnedMemory* const kMemory = new PinnedMemory;
  return *kMemory;
}

cudaError_t PinnedMemory::Allocate(void** pointer, size_t bytes) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* const memory =
      std::aligned_alloc(kPageBytes, (bytes + kPageBytes - 1) / kPageBytes * kPageBytes);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  FillGarbage(memory, bytes);
  std::lock_guard<std::mutex> lock(mutex_);
  ranges_[reinterpret_cast<uintptr_t>(memory)] = {bytes, true};
  *pointer = memory;
  return cudaSuccess;
}

cudaError_t PinnedMemory::Free(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = ranges_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == ranges_.end() || !found->second.allocated) return cudaErrorInvalidValue;
  ranges_.erase(found);
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t PinnedMemory::Register(void* pointer, size_t bytes) {
  if (pointer == nullptr || bytes == 0) return cudaErrorInvalidValue;
  const auto start = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard<std::mutex> lock(mutex_);
  auto next = ranges_.lower_bound(start);
  if (next != ranges_.end() && next->first < start + bytes) {
    return cudaErrorHostMemoryAlreadyRegistered;
  }
  if (next != ranges_.begin()) {
    --next;
    if (next->first + next->second.bytes > start) return cudaErrorHostMemoryAlreadyRegistered;
  }
  ranges_[start] = {bytes, false};
  return cudaSuccess;
}

cudaError_t PinnedMemory::Unregister(void* pointer) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = ranges_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == ranges_.end() || found->second.allocated) return cudaErrorHostMemoryNotRegistered;
  ranges_.erase(found);
  return cudaSuccess;
}

bool PinnedMemory::Contains(const volatile void* pointer, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  return ContainsLocked(reinterpret_cast<uintptr_t>(pointer), bytes);
}

bool PinnedMemory::ContainsLocked(uintptr_t address, size_t bytes) const {
  auto found = ranges_.upper_bound(address);
  if (found == ranges_.begin()) return false;
  --found;
  const size_t offset = address - found->first;
  return offset <= found->second.bytes && bytes <= found->second.bytes - offset;
}

}  // namespace cuda_on_cpu
