#ifndef TESTS_CUDA_ON_CPU_SHARED_VARIABLES_H_
#define TESTS_CUDA_ON_CPU_SHARED_VARIABLES_H_

#include <cstddef>
#include <vector>

namespace cuda_on_cpu {

// A `__shared__` variable: here one of an operating system's thread, so its address depends on who
// asks.
struct SharedVariable {
  size_t offset;  // from ThreadVariables()
  size_t bytes;
};

struct KernelVariables {
  std::vector<SharedVariable> own;  // of the kernel itself
  // Of other functions in its namespace: device functions, some of which it may call, and other
  // kernels.
  std::vector<SharedVariable> others;

  size_t own_bytes() const;
};

// Found in the symbol table of the running program: the compiler names a variable of a function by
// the function. Empty if the program has been stripped. The result lives for ever.
const KernelVariables& FindSharedVariables(const void* kernel);

// Where the calling thread's variables begin.
char* ThreadVariables();

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_SHARED_VARIABLES_H_
