#include "tests/cuda_on_cpu/memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "tests/cuda_on_cpu/faults.h"
#include "tests/cuda_on_cpu/garbage.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/options.h"
#include "tests/cuda_on_cpu/report.h"

namespace cuda_on_cpu {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kAlignment = 256;
constexpr size_t kMaxFreed = 4096;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

uintptr_t Address(const volatile void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
void* Pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

// From here on garbage is mapped: filling workspaces of many megabytes, of which little is ever
// touched, takes longer than most tests.
constexpr size_t kMapBytes = size_t{256} << 10;

// Gives pages memory, full of garbage.
bool MakeUsable(void* at, size_t bytes) {
  if (bytes >= kMapBytes) return MapGarbage(at, bytes);
  if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  FillGarbage(at, bytes);
  return true;
}

DeviceMemory* NewDeviceMemory() {
  InstallFaultHandler();
  auto* memory = new DeviceMemory;
  const char* strict = std::getenv("CUDA_ON_CPU_STRICT");
  memory->SetStrict(strict != nullptr && strict[0] == '1');
  return memory;
}

}  // namespace

DeviceMemory& DeviceMemory::Get() {
  static DeviceMemory* const kMemory = NewDeviceMemory();
  return *kMemory;
}

cudaError_t DeviceMemory::Allocate(void** pointer, size_t bytes) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  std::lock_guard<std::mutex> lock(mutex_);
  const size_t limit = options().memory_bytes;
  if (bytes > limit || allocated_bytes_ > limit - bytes) return cudaErrorMemoryAllocation;
  const size_t inner = RoundUp(RoundUp(bytes, kAlignment), kPageBytes);
  const size_t mapping_bytes = inner + 2 * kPageBytes;
  void* mapping =
      mmap(nullptr, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return cudaErrorMemoryAllocation;
  void* const first = static_cast<char*>(mapping) + kPageBytes;
  if (!MakeUsable(first, inner)) {
    munmap(mapping, mapping_bytes);
    return cudaErrorMemoryAllocation;
  }
  if (strict_ && accesses_ == 0) mprotect(first, inner, PROT_NONE);
  const uintptr_t start = Address(first) + inner - RoundUp(bytes, kAlignment);
  live_[start] = {Address(mapping), mapping_bytes, bytes};
  allocated_bytes_ += bytes;
  *pointer = Pointer(start);
  return cudaSuccess;
}

cudaError_t DeviceMemory::Free(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = live_.find(Address(pointer));
  if (found == live_.end()) return cudaErrorInvalidValue;
  BeginAccessLocked();
  CheckEdgesOf(found->first, found->second);
  EndAccessLocked();
  Retire(found);
  return cudaSuccess;
}

void DeviceMemory::FreeAll() {
  std::lock_guard<std::mutex> lock(mutex_);
  while (!live_.empty()) Retire(live_.begin());
}

void DeviceMemory::Retire(Allocations::iterator allocation) {
  const Allocation& gone = allocation->second;
  // The address stays taken, the memory does not.
  const void* const mapped = mmap(Pointer(gone.mapping), gone.mapping_bytes, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (mapped == MAP_FAILED) Fail("no address for %zu bytes that are freed", gone.bytes);
  allocated_bytes_ -= gone.bytes;
  freed_.emplace_back(allocation->first, gone);
  live_.erase(allocation);
  if (freed_.size() > kMaxFreed) {
    munmap(Pointer(freed_.front().second.mapping), freed_.front().second.mapping_bytes);
    freed_.pop_front();
  }
}

size_t DeviceMemory::allocated_bytes() {
  std::lock_guard<std::mutex> lock(mutex_);
  return allocated_bytes_;
}

bool DeviceMemory::Contains(const volatile void* pointer, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = live_.upper_bound(Address(pointer));
  if (found == live_.begin()) return false;
  --found;
  const size_t offset = Address(pointer) - found->first;
  return offset <= found->second.bytes && bytes <= found->second.bytes - offset;
}

void DeviceMemory::CheckEdges() {
  std::lock_guard<std::mutex> lock(mutex_);
  BeginAccessLocked();
  for (const auto& [start, allocation] : live_) CheckEdgesOf(start, allocation);
  EndAccessLocked();
}

void DeviceMemory::CheckEdgesOf(uintptr_t start, const Allocation& allocation) {
  const uintptr_t first = allocation.mapping + kPageBytes;
  const uintptr_t end = start + allocation.bytes;
  const uintptr_t last = allocation.mapping + allocation.mapping_bytes - kPageBytes;
  const void* changed = FindChange(Pointer(first), start - first);
  if (changed != nullptr) {
    Fail("something wrote %zu bytes before the %zu bytes of device memory at %p",
         start - Address(changed), allocation.bytes, Pointer(start));
  }
  changed = FindChange(Pointer(end), last - end);
  if (changed != nullptr) {
    Fail("something wrote %zu bytes after the end of the %zu bytes of device memory at %p",
         Address(changed) - end, allocation.bytes, Pointer(start));
  }
}

void DeviceMemory::BeginAccess() {
  std::lock_guard<std::mutex> lock(mutex_);
  BeginAccessLocked();
}

void DeviceMemory::EndAccess() {
  std::lock_guard<std::mutex> lock(mutex_);
  EndAccessLocked();
}

void DeviceMemory::BeginAccessLocked() {
  if (accesses_++ == 0 && strict_) ProtectAll(PROT_READ | PROT_WRITE);
}

void DeviceMemory::EndAccessLocked() {
  if (--accesses_ == 0 && strict_) ProtectAll(PROT_NONE);
}

void DeviceMemory::SetStrict(bool strict) {
  std::lock_guard<std::mutex> lock(mutex_);
  strict_ = strict;
  ProtectAll(strict && accesses_ == 0 ? PROT_NONE : PROT_READ | PROT_WRITE);
}

bool DeviceMemory::strict() {
  std::lock_guard<std::mutex> lock(mutex_);
  return strict_;
}

void DeviceMemory::ProtectAll(int protection) {
  for (const auto& [start, allocation] : live_) {
    mprotect(Pointer(allocation.mapping + kPageBytes), allocation.mapping_bytes - 2 * kPageBytes,
             protection);
  }
}

bool DeviceMemory::Describe(uintptr_t address, char* text, size_t size) const {
  for (const auto& [start, freed] : freed_) {
    if (address - freed.mapping >= freed.mapping_bytes) continue;
    std::snprintf(text, size, "in the %zu bytes of device memory at %p, which are freed",
                  freed.bytes, Pointer(start));
    return true;
  }
  for (const auto& [start, live] : live_) {
    if (address - live.mapping >= live.mapping_bytes) continue;
    if (address < start) {
      std::snprintf(text, size, "%zu bytes before the %zu bytes of device memory at %p",
                    start - address, live.bytes, Pointer(start));
    } else if (address >= start + live.bytes) {
      std::snprintf(text, size, "%zu bytes after the end of the %zu bytes of device memory at %p",
                    address - start - live.bytes, live.bytes, Pointer(start));
    } else {
      std::snprintf(text, size, "%zu bytes into the %zu bytes of device memory at %p, by the host",
                    address - start, live.bytes, Pointer(start));
    }
    return true;
  }
  return false;
}

void SetStrict(bool strict) { DeviceMemory::Get().SetStrict(strict); }

}  // namespace cuda_on_cpu
