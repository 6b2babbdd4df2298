#include "tests/cuda_on_cpu/fibers.h"

#include <utility>

#include "tests/cuda_on_cpu/stacks.h"

namespace cuda_on_cpu {

Fiber* FiberPool::Take() {
  if (!free_.empty()) {
    Fiber* fiber = free_.back();
    free_.pop_back();
    return fiber;
  }
  fibers_.push_back(std::make_unique<Fiber>());
  Fiber* fiber = fibers_.back().get();
  fiber->context = boost::context::fiber(std::allocator_arg, StackAllocator(fibers_.size()),
                                         [this, fiber](boost::context::fiber&& left) {
                                           leaving_->context = std::move(left);
                                           loop_(fiber);
                                           return std::move(leaving_->context);
                                         });
  return fiber;
}

}  // namespace cuda_on_cpu
