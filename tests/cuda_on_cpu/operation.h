#ifndef TESTS_CUDA_ON_CPU_OPERATION_H_
#define TESTS_CUDA_ON_CPU_OPERATION_H_

#include <functional>

namespace cuda_on_cpu {

// What a stream does. May be run again and again when a graph has recorded it.
struct Operation {
  const char* name;  // lives for ever
  std::function<void()> run;
  bool on_host = false;  // a function of the host, which sees no device memory
};

// Runs it unless the device has failed.
void RunOperation(const Operation& operation);

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_OPERATION_H_
