#ifndef TESTS_CUDA_ON_CPU_OPTIONS_H_
#define TESTS_CUDA_ON_CPU_OPTIONS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"

namespace cuda_on_cpu {

// The settings of control.h. Read by any thread; a test sets them between kernels.
struct Options {
  std::atomic<Order> order{Order::kForward};
  std::atomic<uint64_t> order_seed{0};
  std::atomic<StreamMode> streams{StreamMode::kLazy};
  std::atomic<uint64_t> streams_seed{0};
  std::atomic<PageableMode> pageable{PageableMode::kStaged};
  std::atomic<bool> device_is_given{true};
  std::atomic<size_t> memory_bytes{size_t{16} << 30};
  // Does not change. Empty: none fails.
  std::string failing_kernel;
  std::atomic<int64_t> launches_to_failure{0};
};

// From the environment at first use.
Options& options();

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_OPTIONS_H_
