#ifndef TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_BARRIERS_H_
#define TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_BARRIERS_H_

// Barriers of a block. Each takes the line that it is called from: all threads of a block must wait
// at the same one.

namespace cuda_on_cpu {

enum class BarrierKind { kPlain, kCount, kAnd, kOr };

struct Site {
  const char* file;
  int line;
};

// Waits for all threads of the block; the result of the predicates as `kind` says.
int BlockBarrier(BarrierKind kind, int predicate, Site site);

}  // namespace cuda_on_cpu

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  cuda_on_cpu::BlockBarrier(cuda_on_cpu::BarrierKind::kPlain, 0, {file, line});
}

inline int __syncthreads_count(int predicate, const char* file = __builtin_FILE(),
                               int line = __builtin_LINE()) {
  return cuda_on_cpu::BlockBarrier(cuda_on_cpu::BarrierKind::kCount, predicate, {file, line});
}

inline int __syncthreads_and(int predicate, const char* file = __builtin_FILE(),
                             int line = __builtin_LINE()) {
  return cuda_on_cpu::BlockBarrier(cuda_on_cpu::BarrierKind::kAnd, predicate, {file, line});
}

inline int __syncthreads_or(int predicate, const char* file = __builtin_FILE(),
                            int line = __builtin_LINE()) {
  return cuda_on_cpu::BlockBarrier(cuda_on_cpu::BarrierKind::kOr, predicate, {file, line});
}

inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

#endif  // TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_BARRIERS_H_
