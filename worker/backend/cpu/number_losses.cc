#include "worker/backend/cpu/number_losses.h"

#include <cmath>
#include <cstdint>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/functions.h"
#include "worker/backend/cpu/kernel.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {

SANGAM_CPU_KERNEL
double SquaredError(ConstMatrix outputs, const float* targets, float* gradient) {
  double loss = 0;
  for (int64_t i = 0; i < outputs.size(); ++i) {
    const double error = double{outputs.data[i]} - double{targets[i]};
    loss += error * error;
  }
  if (gradient == nullptr) return loss;
  for (int64_t i = 0; i < outputs.size(); ++i) {
    gradient[i] = 2.0f * (outputs.data[i] - targets[i]);
  }
  return loss;
}

SANGAM_CPU_KERNEL
ClassificationSums BinaryCrossEntropy(ConstMatrix outputs, const float* targets, float* gradient) {
  ClassificationSums sums;
  for (int64_t i = 0; i < outputs.size(); ++i) {
    const float o = outputs.data[i];
    const float t = targets[i];
    const double magnitude = std::abs(double{o});
    sums.loss +=
        ((o < 0 ? 0.0 : double{o}) - double{o} * double{t}) + std::log1p(std::exp(-magnitude));
    if ((o > 0) == (t >= 0.5f)) ++sums.correct;
  }
  if (gradient == nullptr) return sums;
  for (int64_t i = 0; i < outputs.size(); ++i) {
    gradient[i] = cpu_functions::Sigmoid(outputs.data[i]) - targets[i];
  }
  return sums;
}

}  // namespace sangam::cpu_kernels
