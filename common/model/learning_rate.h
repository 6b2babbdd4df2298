#ifndef SANGAM_COMMON_MODEL_LEARNING_RATE_H_
#define SANGAM_COMMON_MODEL_LEARNING_RATE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/model.pb.h"

namespace sangam {

// cos(pi * x) for 0 <= x <= 1, to 1e-15: additions, multiplications and quotients alone, so that
// the bits are the same with every mathematical library.
double CosPi(double x);

// The learning rate of each step: OptimizerSpec.learning_rate times the schedule's factor, computed
// in double and rounded once to float. Every server has the same bits. Immutable.
class LearningRate {
 public:
  // `steps_total`: of the job, 0 where it is not known yet.
  // Errors: InvalidArgument  the schedule needs steps_total, which is 0
  // REQUIRES: CheckOptimizer of optimizer_check.h finds no fault in `spec`.
  static absl::StatusOr<LearningRate> Create(const v1::OptimizerSpec& spec, uint64_t steps_total);

  // Of a step, counted from 0.
  float At(uint64_t step) const;

 private:
  enum class Kind { kConstant, kStep, kLinear, kCosine };

  LearningRate() = default;
  double Factor(uint64_t step) const;

  Kind kind_ = Kind::kConstant;
  double learning_rate_ = 0;
  double warmup_start_ = 0;
  uint64_t warmup_steps_ = 0;
  uint64_t every_ = 1;
  double factor_ = 1;
  double end_ = 0;
  uint64_t decay_steps_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_LEARNING_RATE_H_
