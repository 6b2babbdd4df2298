#ifndef SANGAM_WORKER_BACKEND_CPU_LANES_H_
#define SANGAM_WORKER_BACKEND_CPU_LANES_H_

#include <cstdint>

#include "worker/backend/cpu/kernel.h"

namespace sangam::cpu_kernels {

// Element j belongs to lane j % kLanes: the order of a sum, whatever the width of the machine.
constexpr int kLanes = 16;

SANGAM_CPU_INLINE float FoldSum(float (&lanes)[kLanes]) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// Sum over j of term(j), for j in [0, size).
template <typename Term>
SANGAM_CPU_INLINE float SumInLanes(int64_t size, const Term& term) {
  float lanes[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= size; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(j + lane);
  }
  for (int lane = 0; j + lane < size; ++lane) lanes[lane] += term(j + lane);
  return FoldSum(lanes);
}

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_LANES_H_
