#ifndef TESTS_CUDA_ON_CPU_STACKS_H_
#define TESTS_CUDA_ON_CPU_STACKS_H_

#include <boost/context/stack_context.hpp>
#include <cstddef>

namespace cuda_on_cpu {

// Makes the stack of one fiber, with a page below it that cannot be touched: what Boost calls a
// stack allocator.
//
// Stacks that all begin at a page's end would share one set of the processor's cache, so that each
// switch of fibers misses it. Their starts are spread over a page, by `index`.
class StackAllocator {
 public:
  explicit StackAllocator(size_t index) : index_(index) {}

  boost::context::stack_context allocate();
  void deallocate(boost::context::stack_context& stack);

 private:
  size_t unused_bytes() const;

  size_t index_;
};

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_STACKS_H_
