#include "server/core/optimizer.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/base/power.h"
#include "common/base/status_macros.h"
#include "common/model/field_fault.h"
#include "common/model/optimizer_check.h"
#include "common/model/optimizer_state.h"
#include "proto/model.pb.h"
#include "server/core/vector_kernels.h"

namespace sangam {
namespace {

// 1 - x, exact in double before it is rounded.
float OneMinus(float x) { return static_cast<float>(1.0 - static_cast<double>(x)); }

// 1 - beta^t, t the number of the update counted from 1.
double Correction(float beta, uint64_t updates) {
  return 1.0 - Power(static_cast<double>(beta), updates + 1);
}

UpdateRun RunOf(const Optimizer::Elements& e, const ParameterRange& range) {
  UpdateRun run;
  run.weights = e.weights + range.begin;
  for (size_t i = 0; i < run.state.size(); ++i) {
    if (e.state[i] != nullptr) run.state[i] = e.state[i] + range.begin;
  }
  run.next = e.next + range.begin;
  run.count = range.end - range.begin;
  return run;
}

void Average(float rate, const UpdateRun& run, const VectorKernels& kernels) {
  kernels.average({OneMinus(rate), rate}, run);
}

}  // namespace

absl::StatusOr<Optimizer> Optimizer::Create(const v1::OptimizerSpec& spec) {
  std::vector<FieldFault> faults;
  CheckOptimizer(spec, &faults);
  RETURN_IF_ERROR(ToStatus(faults));
  v1::OptimizerSpec resolved = spec;
  ResolveOptimizer(&resolved);
  Optimizer optimizer;
  optimizer.learning_rate_ = resolved.learning_rate();
  optimizer.names_ = OptimizerStateNames(resolved);
  switch (resolved.kind_case()) {
    case v1::OptimizerSpec::kMomentum:
      optimizer.kind_ = Kind::kMomentum;
      optimizer.momentum_ = resolved.momentum().momentum();
      optimizer.nesterov_ = resolved.momentum().nesterov();
      break;
    case v1::OptimizerSpec::kAdagrad:
      optimizer.kind_ = Kind::kAdagrad;
      optimizer.epsilon_ = resolved.adagrad().epsilon();
      optimizer.initial_state_ = resolved.adagrad().initial_accumulator();
      break;
    case v1::OptimizerSpec::kRmsprop:
      optimizer.kind_ = Kind::kRmsProp;
      optimizer.beta1_ = resolved.rmsprop().alpha();
      optimizer.epsilon_ = resolved.rmsprop().epsilon();
      optimizer.momentum_ = resolved.rmsprop().momentum();
      optimizer.centered_ = resolved.rmsprop().centered();
      break;
    case v1::OptimizerSpec::kAdam:
      optimizer.SetAdam(Kind::kAdam, resolved.adam().beta1(), resolved.adam().beta2(),
                        resolved.adam().epsilon());
      break;
    case v1::OptimizerSpec::kAdamw:
      optimizer.SetAdam(Kind::kAdamW, resolved.adamw().beta1(), resolved.adamw().beta2(),
                        resolved.adamw().epsilon());
      break;
    case v1::OptimizerSpec::kLamb:
      optimizer.SetAdam(Kind::kLamb, resolved.lamb().beta1(), resolved.lamb().beta2(),
                        resolved.lamb().epsilon());
      break;
    case v1::OptimizerSpec::kSgd:
    case v1::OptimizerSpec::KIND_NOT_SET:  // a fault above
      break;
  }
  return optimizer;
}

void Optimizer::SetAdam(Kind kind, float beta1, float beta2, float epsilon) {
  kind_ = kind;
  beta1_ = beta1;
  beta2_ = beta2;
  epsilon_ = epsilon;
}

AdamStep Optimizer::AdamStepOf(const StepNumbers& numbers, float weight_decay) const {
  const auto rate = static_cast<double>(numbers.learning_rate);
  AdamStep s;
  s.step_size = static_cast<float>(rate / Correction(beta1_, numbers.updates));
  s.beta1 = beta1_;
  s.one_minus_beta1 = OneMinus(beta1_);
  s.beta2 = beta2_;
  s.one_minus_beta2 = OneMinus(beta2_);
  s.root_correction = static_cast<float>(1.0 / std::sqrt(Correction(beta2_, numbers.updates)));
  s.epsilon = epsilon_;
  s.scale = numbers.scale;
  if (kind_ == Kind::kAdamW) {
    s.shrink = static_cast<float>(1.0 - rate * static_cast<double>(weight_decay));
  } else {
    s.decay = weight_decay;
  }
  return s;
}

LambStep Optimizer::LambStepOf(const StepNumbers& numbers, float weight_decay) const {
  LambStep s;
  s.beta1 = beta1_;
  s.one_minus_beta1 = OneMinus(beta1_);
  s.beta2 = beta2_;
  s.one_minus_beta2 = OneMinus(beta2_);
  s.correction1 = static_cast<float>(1.0 / Correction(beta1_, numbers.updates));
  s.correction2 = static_cast<float>(1.0 / Correction(beta2_, numbers.updates));
  s.epsilon = epsilon_;
  s.scale = numbers.scale;
  s.decay = weight_decay;
  return s;
}

void Optimizer::UpdateRange(const StepNumbers& numbers, float weight_decay, const UpdateRun& run,
                            const VectorKernels& kernels) const {
  const float rate = numbers.learning_rate;
  switch (kind_) {
    case Kind::kSgd:
      return kernels.sgd({rate, numbers.scale, weight_decay}, run);
    case Kind::kMomentum:
      return kernels.momentum({rate, momentum_, nesterov_, numbers.scale, weight_decay}, run);
    case Kind::kAdagrad:
      return kernels.adagrad({rate, epsilon_, numbers.scale, weight_decay}, run);
    case Kind::kRmsProp:
      return kernels.rmsprop({rate, beta1_, OneMinus(beta1_), epsilon_, momentum_, centered_,
                              numbers.scale, weight_decay},
                             run);
    case Kind::kAdam:
    case Kind::kAdamW:
      return kernels.adam(AdamStepOf(numbers, weight_decay), run);
    case Kind::kLamb:
      break;
  }
  SANGAM_CHECK(false);  // LAMB needs the norms of whole parameters: Direct, then Apply.
}

void Optimizer::Update(const StepNumbers& numbers, const Elements& e,
                       const VectorKernels& kernels) const {
  for (const ParameterRange& range : *e.ranges) {
    const UpdateRun run = RunOf(e, range);
    if (range.average_rate > 0) {
      Average(range.average_rate, run, kernels);
    } else {
      UpdateRange(numbers, range.weight_decay, run, kernels);
    }
  }
}

void Optimizer::Direct(const StepNumbers& numbers, const Elements& e, const VectorKernels& kernels,
                       std::vector<double>* norms) const {
  norms->clear();
  for (const ParameterRange& range : *e.ranges) {
    const UpdateRun run = RunOf(e, range);
    if (range.average_rate > 0) {
      Average(range.average_rate, run, kernels);
      norms->insert(norms->end(), {0, 0});
      continue;
    }
    kernels.lamb(LambStepOf(numbers, range.weight_decay), run);
    norms->push_back(SumOfSquares(run.weights, run.count, kernels));
    norms->push_back(SumOfSquares(run.next, run.count, kernels));
  }
}

void Optimizer::Apply(const StepNumbers& numbers, const std::vector<float>& trust,
                      const Elements& e, const VectorKernels& kernels) const {
  SANGAM_CHECK(trust.size() == e.ranges->size());
  for (size_t i = 0; i < trust.size(); ++i) {
    const ParameterRange& range = (*e.ranges)[i];
    if (range.average_rate > 0) continue;
    SgdStep step;
    step.learning_rate = numbers.learning_rate * trust[i];
    kernels.sgd(step, RunOf(e, range));
  }
}

double Optimizer::SquaredNorm(const Elements& e, const VectorKernels& kernels) {
  double sum = 0;
  for (const ParameterRange& range : *e.ranges) {
    if (range.average_rate > 0) continue;
    sum += SumOfSquares(e.next + range.begin, range.end - range.begin, kernels);
  }
  return sum;
}

}  // namespace sangam
