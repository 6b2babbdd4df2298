#ifndef SANGAM_WORKER_BACKEND_CPU_SOFTMAX_ROW_H_
#define SANGAM_WORKER_BACKEND_CPU_SOFTMAX_ROW_H_

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/functions.h"
#include "worker/backend/cpu/kernel.h"
#include "worker/backend/cpu/lanes.h"
#include "worker/backend/cpu/vector.h"

// The parts of a softmax over one row.
namespace sangam::cpu_kernels {

// NaN when the first element is one; later ones are passed over (the sum shows them).
SANGAM_CPU_INLINE float Largest(const float* x, int64_t size) {
  float largest = x[0];
  int64_t j = 0;
  // Two at a time: each one alone would wait for its own comparisons.
  constexpr int kVectors = 2;
  if (size >= kVectors * kVectorLanes) {
    Vector best[kVectors];
    for (int v = 0; v < kVectors; ++v) best[v] = Vector{} + largest;
    for (; j + kVectors * kVectorLanes <= size; j += kVectors * kVectorLanes) {
      for (int v = 0; v < kVectors; ++v) {
        Vector next;
        std::memcpy(&next, x + j + v * kVectorLanes, sizeof(next));
        best[v] = next > best[v] ? next : best[v];
      }
    }
    for (const Vector& vector : best) {
      for (int lane = 0; lane < kVectorLanes; ++lane) {
        largest = vector[lane] > largest ? vector[lane] : largest;
      }
    }
  }
  for (; j < size; ++j) largest = x[j] > largest ? x[j] : largest;
  return largest;
}

// Sum of exp(x[j] - largest); each term is left in `terms` when there is such an array.
SANGAM_CPU_INLINE float SumOfExp(const float* x, int64_t size, float largest, float* terms) {
  // By themselves and more than there are lanes, so that the compiler makes vectors of them.
  constexpr int64_t kChunk = 64;
  float e[kChunk];
  float lanes[kLanes] = {};
  for (int64_t first = 0; first < size; first += kChunk) {
    const int64_t count = size - first < kChunk ? size - first : kChunk;
    for (int64_t i = 0; i < count; ++i) e[i] = cpu_functions::Exp(x[first + i] - largest);
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += e[i + lane];
    }
    for (int lane = 0; i + lane < count; ++lane) lanes[lane] += e[i + lane];
    if (terms == nullptr) continue;
    for (int64_t j = 0; j < count; ++j) terms[first + j] = e[j];
  }
  return FoldSum(lanes);
}

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_SOFTMAX_ROW_H_
