#ifndef TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_ATOMICS_H_
#define TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_ATOMICS_H_

// Atomic operations, each returning the value before. Real ones: kernels of several streams may run
// at a time.

#include <cstring>

namespace cuda_on_cpu {

// Replaces `*address` by `change` of it.
template <typename T, typename Bits, typename Change>
T AtomicUpdate(T* address, Change change) {
  static_assert(sizeof(T) == sizeof(Bits));
  auto* word = reinterpret_cast<Bits*>(address);
  Bits before = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    T old;
    std::memcpy(&old, &before, sizeof(T));
    const T value = change(old);
    Bits after;
    std::memcpy(&after, &value, sizeof(T));
    if (__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
      return old;
    }
  }
}

}  // namespace cuda_on_cpu

inline int atomicAdd(int* address, int value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
inline float atomicAdd(float* address, float value) {
  return cuda_on_cpu::AtomicUpdate<float, unsigned>(address, [=](float x) { return x + value; });
}

inline int atomicSub(int* address, int value) {
  return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);
}
inline unsigned atomicSub(unsigned* address, unsigned value) {
  return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);
}

inline int atomicOr(int* address, int value) {
  return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}
inline unsigned atomicOr(unsigned* address, unsigned value) {
  return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}
inline int atomicAnd(int* address, int value) {
  return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);
}
inline unsigned atomicAnd(unsigned* address, unsigned value) {
  return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);
}

inline int atomicMin(int* address, int value) {
  return cuda_on_cpu::AtomicUpdate<int, int>(address, [=](int x) { return x < value ? x : value; });
}
inline unsigned atomicMin(unsigned* address, unsigned value) {
  return cuda_on_cpu::AtomicUpdate<unsigned, unsigned>(
      address, [=](unsigned x) { return x < value ? x : value; });
}
inline int atomicMax(int* address, int value) {
  return cuda_on_cpu::AtomicUpdate<int, int>(address, [=](int x) { return x > value ? x : value; });
}
inline unsigned atomicMax(unsigned* address, unsigned value) {
  return cuda_on_cpu::AtomicUpdate<unsigned, unsigned>(
      address, [=](unsigned x) { return x > value ? x : value; });
}

inline int atomicExch(int* address, int value) {
  return __atomic_exchange_n(address, value, __ATOMIC_RELAXED);
}
inline unsigned atomicExch(unsigned* address, unsigned value) {
  return __atomic_exchange_n(address, value, __ATOMIC_RELAXED);
}
inline float atomicExch(float* address, float value) {
  return cuda_on_cpu::AtomicUpdate<float, unsigned>(address, [=](float) { return value; });
}

inline int atomicCAS(int* address, int expected, int value) {
  __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
inline unsigned atomicCAS(unsigned* address, unsigned expected, unsigned value) {
  __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
inline unsigned long long atomicCAS(unsigned long long* address, unsigned long long expected,
                                    unsigned long long value) {
  __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

#endif  // TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_ATOMICS_H_
