#ifndef TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_WARPS_H_
#define TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_WARPS_H_

// What the threads of a warp do together: every thread named in `mask` must come to the same call
// with the same mask.

#include <cstdint>
#include <cstring>

#include "barriers.h"

namespace cuda_on_cpu {

enum class WarpKind : uint8_t { kSync, kShuffle, kShuffleUp, kShuffleDown, kShuffleXor, kBallot };

struct WarpCall {
  WarpKind kind;
  unsigned mask;
  uint64_t value;  // the thread's own
  int lane;        // the source, the distance or the bits to flip, as `kind` says
  int width;       // of the groups in which lanes are numbered
  Site site;
};

// Waits for the other threads; a shuffle's value, or the votes. Garbage where the source takes no
// part.
uint64_t WarpExchange(const WarpCall& call);

template <typename T>
T Shuffle(WarpKind kind, unsigned mask, T value, int lane, int width, Site site) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most eight bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = WarpExchange({kind, mask, bits, lane, width, site});
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

inline unsigned Ballot(unsigned mask, int predicate, Site site) {
  return static_cast<unsigned>(
      WarpExchange({WarpKind::kBallot, mask, predicate != 0, 0, 32, site}));
}

}  // namespace cuda_on_cpu

inline void __syncwarp(unsigned mask = 0xffffffffu, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  cuda_on_cpu::WarpExchange({cuda_on_cpu::WarpKind::kSync, mask, 0, 0, 32, {file, line}});
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  return cuda_on_cpu::Shuffle(cuda_on_cpu::WarpKind::kShuffle, mask, value, lane, width,
                              {file, line});
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return cuda_on_cpu::Shuffle(cuda_on_cpu::WarpKind::kShuffleUp, mask, value,
                              static_cast<int>(delta), width, {file, line});
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return cuda_on_cpu::Shuffle(cuda_on_cpu::WarpKind::kShuffleDown, mask, value,
                              static_cast<int>(delta), width, {file, line});
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return cuda_on_cpu::Shuffle(cuda_on_cpu::WarpKind::kShuffleXor, mask, value, lane_mask, width,
                              {file, line});
}

inline unsigned __ballot_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  return cuda_on_cpu::Ballot(mask, predicate, {file, line});
}

inline int __any_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  return cuda_on_cpu::Ballot(mask, predicate, {file, line}) != 0;
}

// Among the threads that take part: those of `mask` that have not ended.
inline int __all_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  return cuda_on_cpu::Ballot(mask, !predicate, {file, line}) == 0;
}

#endif  // TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_WARPS_H_
