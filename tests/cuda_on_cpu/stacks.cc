#include "tests/cuda_on_cpu/stacks.h"

#include <sys/mman.h>

#include "tests/cuda_on_cpu/report.h"

namespace cuda_on_cpu {
namespace {

constexpr size_t kPageBytes = 4096;
// Device code has small frames, but host functions such as printf are called from it too.
constexpr size_t kStackBytes = size_t{64} << 10;
constexpr size_t kCacheLineBytes = 64;
// What a thread that waits uses of its stack, about.
constexpr size_t kLinesInUse = 7;

}  // namespace

size_t StackAllocator::unused_bytes() const {
  return index_ * kLinesInUse * kCacheLineBytes % kPageBytes;
}

boost::context::stack_context StackAllocator::allocate() {
  constexpr size_t kMappingBytes = kStackBytes + kPageBytes;
  void* const mapping = mmap(nullptr, kMappingBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED || mprotect(mapping, kPageBytes, PROT_NONE) != 0) {
    Fail("no memory for the stack of fiber %zu", index_);
  }
  boost::context::stack_context stack;
  stack.size = kMappingBytes - unused_bytes();
  stack.sp = static_cast<char*>(mapping) + stack.size;
  return stack;
}

void StackAllocator::deallocate(boost::context::stack_context& stack) {
  munmap(static_cast<char*>(stack.sp) - stack.size, stack.size + unused_bytes());
}

}  // namespace cuda_on_cpu
