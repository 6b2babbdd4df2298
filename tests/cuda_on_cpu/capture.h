#ifndef TESTS_CUDA_ON_CPU_CAPTURE_H_
#define TESTS_CUDA_ON_CPU_CAPTURE_H_

#include <cstddef>
#include <map>
#include <thread>
#include <vector>

#include "tests/cuda_on_cpu/include/driver_types.h"
#include "tests/cuda_on_cpu/operation.h"

namespace cuda_on_cpu {

struct Queue;

// How many operations of each captured stream somebody knows to be before him.
using Known = std::map<const Queue*, size_t>;

// A graph in the making: the operations of the stream where it began and of those that waited for
// its events, in the order in which they came. Not thread-safe; Streams' lock protects it.
struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  const Queue* origin = nullptr;
  bool spoilt = false;
  std::vector<Operation> operations;
  Known counts;                         // of each stream's operations
  std::map<const Queue*, Known> known;  // by each stream
};

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_CAPTURE_H_
