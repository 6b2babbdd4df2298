#ifndef TESTS_CUDA_ON_CPU_GRID_H_
#define TESTS_CUDA_ON_CPU_GRID_H_

#include <cstdint>
#include <functional>

#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/launch.h"

namespace cuda_on_cpu {

// The order of blocks, and of the threads of each.
struct GridOrder {
  Order order;
  uint64_t seed;
};

// Runs the blocks of a grid one after the other. `body` is one thread.
void RunGrid(const LaunchShape& shape, GridOrder order, const std::function<void()>& body);

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_GRID_H_
