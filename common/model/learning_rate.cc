#include "common/model/learning_rate.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/power.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Their Taylor series, for 0 <= x <= pi / 4; what is left out is below 1e-16.
double SmallCos(double x) {
  const double square = x * x;
  double sum = 1;
  for (int k = 16; k > 0; k -= 2) sum = 1 - square / (k * (k - 1)) * sum;
  return sum;
}

double SmallSin(double x) {
  const double square = x * x;
  double sum = 1;
  for (int k = 17; k > 1; k -= 2) sum = 1 - square / (k * (k - 1)) * sum;
  return x * sum;
}

}  // namespace

double CosPi(double x) {
  if (x > 0.5) return -CosPi(1 - x);
  return x <= 0.25 ? SmallCos(kPi * x) : SmallSin(kPi * (0.5 - x));
}

absl::StatusOr<LearningRate> LearningRate::Create(const v1::OptimizerSpec& spec,
                                                  uint64_t steps_total) {
  const v1::LearningRateSpec& schedule = spec.schedule();
  LearningRate rate;
  rate.learning_rate_ = static_cast<double>(spec.learning_rate());
  rate.warmup_start_ = static_cast<double>(schedule.warmup_start());
  rate.warmup_steps_ = schedule.warmup_steps();
  switch (schedule.kind_case()) {
    case v1::LearningRateSpec::kStep:
      rate.kind_ = Kind::kStep;
      rate.every_ = schedule.step().every();
      rate.factor_ =
          static_cast<double>(schedule.step().has_factor() ? schedule.step().factor() : 0.1f);
      return rate;
    case v1::LearningRateSpec::kLinear:
      rate.kind_ = Kind::kLinear;
      rate.end_ = static_cast<double>(schedule.linear().end());
      rate.decay_steps_ = schedule.linear().decay_steps();
      break;
    case v1::LearningRateSpec::kCosine:
      rate.kind_ = Kind::kCosine;
      rate.end_ = static_cast<double>(schedule.cosine().end());
      rate.decay_steps_ = schedule.cosine().decay_steps();
      break;
    case v1::LearningRateSpec::kConstant:
    case v1::LearningRateSpec::KIND_NOT_SET:
      return rate;
  }
  if (rate.decay_steps_ > 0) return rate;
  if (steps_total == 0) {
    return absl::InvalidArgumentError(
        "optimizer.schedule: found no decay_steps and no number of steps of the job, expected one "
        "of them");
  }
  // A job that ends with its warm-up never comes to the schedule.
  if (steps_total > rate.warmup_steps_) rate.decay_steps_ = steps_total - rate.warmup_steps_;
  return rate;
}

double LearningRate::Factor(uint64_t step) const {
  if (step < warmup_steps_) {
    if (warmup_start_ == 0) {
      return static_cast<double>(step + 1) / static_cast<double>(warmup_steps_ + 1);
    }
    return warmup_start_ +
           (1 - warmup_start_) * static_cast<double>(step) / static_cast<double>(warmup_steps_);
  }
  const uint64_t t = step - warmup_steps_;
  if (kind_ == Kind::kConstant) return 1;
  if (kind_ == Kind::kStep) return Power(factor_, t / every_);
  if (t >= decay_steps_) return end_;
  const double done = static_cast<double>(t) / static_cast<double>(decay_steps_);
  if (kind_ == Kind::kLinear) return 1 + (end_ - 1) * done;
  return end_ + (1 - end_) * (1 + CosPi(done)) / 2;
}

float LearningRate::At(uint64_t step) const {
  return static_cast<float>(learning_rate_ * Factor(step));
}

}  // namespace sangam
