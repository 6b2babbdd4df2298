#ifndef TESTS_CUDA_ON_CPU_SHARED_MEMORY_H_
#define TESTS_CUDA_ON_CPU_SHARED_MEMORY_H_

#include <cstddef>
#include <map>
#include <vector>

#include "tests/cuda_on_cpu/shared_variables.h"

namespace cuda_on_cpu {

// The memory that the threads of a block share, of the calling thread of the operating system. It
// is garbage at the start of each block.
class SharedMemory {
 public:
  static SharedMemory& Current();

  void BeginGrid(const void* kernel, size_t dynamic_bytes);
  void BeginBlock();
  void EndBlock();
  void EndGrid();

  // Ends at a page that cannot be touched, as far as its alignment of 16 bytes allows.
  void* dynamic() const { return dynamic_; }

  ~SharedMemory();

 private:
  // Those that a kernel is known to use: its own, and what it was seen to change.
  struct Used {
    const KernelVariables* variables = nullptr;
    std::vector<SharedVariable> used;
  };

  void SetDynamicBytes(size_t bytes);
  void Fill(const std::vector<SharedVariable>& variables);
  void LearnUsed();

  // Between kernels all variables are garbage, so that what a kernel changes can be seen.
  std::map<const void*, Used> kernels_;
  Used* kernel_ = nullptr;  // the running one
  bool first_block_ = false;
  char* thread_variables_ = nullptr;

  void* mapping_ = nullptr;
  void* dynamic_ = nullptr;
  size_t dynamic_bytes_ = 0;
};

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_SHARED_MEMORY_H_
