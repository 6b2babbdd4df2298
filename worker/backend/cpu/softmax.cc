#include "worker/backend/cpu/softmax.h"

#include <cmath>
#include <cstdint>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/functions.h"
#include "worker/backend/cpu/kernel.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {
namespace {

// Element j belongs to lane j % kLanes: the order of a sum, whatever the width of the machine.
constexpr int kLanes = 16;

inline float FoldSum(float (&lanes)[kLanes]) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

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

}  // namespace

SANGAM_CPU_KERNEL
ClassificationSums SoftmaxCrossEntropy(ConstMatrix logits, const uint32_t* labels,
                                       float* gradient) {
  ClassificationSums sums;
  for (int64_t i = 0; i < logits.rows; ++i) {
    const float* x = logits.data + i * logits.cols;
    float* dx = gradient == nullptr ? nullptr : gradient + i * logits.cols;
    const float largest = Largest(x, logits.cols);
    int64_t predicted = 0;
    while (predicted + 1 < logits.cols && x[predicted] != largest) ++predicted;
    if (predicted == labels[i] && x[predicted] == largest) ++sums.correct;
    // Read before `dx`, which may be the same memory, is written.
    const double of_label = double{x[labels[i]]} - double{largest};
    const float sum = SumOfExp(x, logits.cols, largest, dx);
    sums.loss += std::log(double{sum}) - of_label;
    if (dx == nullptr) continue;
    const float scale = 1.0f / sum;
    for (int64_t j = 0; j < logits.cols; ++j) dx[j] *= scale;
    dx[labels[i]] -= 1.0f;
  }
  return sums;
}

}  // namespace sangam::cpu_kernels
