#ifndef SANGAM_WORKER_BACKEND_CPU_SOFTMAX_ROW_H_
#define SANGAM_WORKER_BACKEND_CPU_SOFTMAX_ROW_H_

#include <cstdint>

#include "worker/backend/cpu/functions.h"
#include "worker/backend/cpu/lanes.h"

// The parts of a softmax over one row.
namespace sangam::cpu_kernels {

// NaN when the first element is one; later ones are passed over (the sum shows them).
inline float Largest(const float* x, int64_t size) {
  float lanes[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = x[0];
  int64_t j = 0;
  for (; j + kLanes <= size; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = x[j + lane] > lanes[lane] ? x[j + lane] : lanes[lane];
    }
  }
  float largest = x[0];
  for (; j < size; ++j) largest = x[j] > largest ? x[j] : largest;
  for (int lane = 0; lane < kLanes; ++lane) {
    largest = lanes[lane] > largest ? lanes[lane] : largest;
  }
  return largest;
}

// Sum of exp(x[j] - largest); each term is left in `terms` when there is such an array.
inline float SumOfExp(const float* x, int64_t size, float largest, float* terms) {
  float lanes[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= size; j += kLanes) {
    float e[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) e[lane] = cpu_functions::Exp(x[j + lane] - largest);
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += e[lane];
    if (terms == nullptr) continue;
    for (int lane = 0; lane < kLanes; ++lane) terms[j + lane] = e[lane];
  }
  for (int lane = 0; j + lane < size; ++lane) {
    const float e = cpu_functions::Exp(x[j + lane] - largest);
    lanes[lane] += e;
    if (terms != nullptr) terms[j + lane] = e;
  }
  return FoldSum(lanes);
}

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_SOFTMAX_ROW_H_
