#include "worker/backend/cpu/softmax.h"

#include <cmath>
#include <cstdint>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/kernel.h"
#include "worker/backend/cpu/softmax_row.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {

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
