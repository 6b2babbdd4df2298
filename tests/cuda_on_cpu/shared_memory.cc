#include "tests/cuda_on_cpu/shared_memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "tests/cuda_on_cpu/garbage.h"
#include "tests/cuda_on_cpu/limits.h"
#include "tests/cuda_on_cpu/report.h"

namespace cuda_on_cpu {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kRoomBytes = (kMaxSharedBytes + kPageBytes - 1) / kPageBytes * kPageBytes;
constexpr size_t kDynamicAlignment = 16;

}  // namespace

void* DynamicShared() { return SharedMemory::Current().dynamic(); }

SharedMemory& SharedMemory::Current() {
  static __thread SharedMemory* current = nullptr;
  if (current == nullptr) {
    static thread_local SharedMemory memory;
    current = &memory;
  }
  return *current;
}

SharedMemory::~SharedMemory() {
  if (mapping_ != nullptr) munmap(mapping_, kRoomBytes + 2 * kPageBytes);
}

void SharedMemory::BeginGrid(const void* kernel, size_t dynamic_bytes) {
  SetDynamicBytes(dynamic_bytes);
  if (thread_variables_ == nullptr) thread_variables_ = ThreadVariables();
  kernel_ = &kernels_[kernel];
  if (kernel_->variables == nullptr) {
    kernel_->variables = &FindSharedVariables(kernel);
    kernel_->used = kernel_->variables->own;
    Fill(kernel_->variables->others);
  }
  first_block_ = true;
}

void SharedMemory::Fill(const std::vector<SharedVariable>& variables) {
  for (const SharedVariable& variable : variables) {
    FillGarbage(thread_variables_ + variable.offset, variable.bytes);
  }
}

// Those of device functions are not the kernel's by name. To fill all of them before each block
// would take longer than most blocks; those that the first block leaves alone are hardly used by
// later ones.
void SharedMemory::LearnUsed() {
  for (const SharedVariable& variable : kernel_->variables->others) {
    if (FindChange(thread_variables_ + variable.offset, variable.bytes) == nullptr) continue;
    const auto same = [&](const SharedVariable& used) { return used.offset == variable.offset; };
    if (std::none_of(kernel_->used.begin(), kernel_->used.end(), same)) {
      kernel_->used.push_back(variable);
    }
  }
}

void SharedMemory::SetDynamicBytes(size_t bytes) {
  if (mapping_ == nullptr) {
    mapping_ =
        mmap(nullptr, kRoomBytes + 2 * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void* const first = static_cast<char*>(mapping_) + kPageBytes;
    if (mapping_ == MAP_FAILED || mprotect(first, kRoomBytes, PROT_READ | PROT_WRITE) != 0) {
      Fail("no memory for the shared memory of a block");
    }
  }
  dynamic_bytes_ = (bytes + kDynamicAlignment - 1) / kDynamicAlignment * kDynamicAlignment;
  dynamic_ = static_cast<char*>(mapping_) + kPageBytes + kRoomBytes - dynamic_bytes_;
}

void SharedMemory::BeginBlock() {
  FillGarbage(dynamic_, dynamic_bytes_);
  Fill(kernel_->used);
}

void SharedMemory::EndBlock() {
  if (first_block_) LearnUsed();
  first_block_ = false;
}

void SharedMemory::EndGrid() { Fill(kernel_->used); }

}  // namespace cuda_on_cpu
