#include "server/core/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "proto/model.pb.h"
#include "server/core/vector_kernels.h"

namespace sangam {
namespace {

absl::Status Expected(absl::string_view field, float found, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.", field, ": found ", found, ", expected ", expected));
}

// Written so that NaN fails.
absl::Status CheckFraction(absl::string_view field, float value) {
  return value >= 0 && value < 1 ? absl::OkStatus() : Expected(field, value, "0 <= value < 1");
}

absl::Status CheckPositive(absl::string_view field, float value) {
  return value > 0 && std::isfinite(value) ? absl::OkStatus()
                                           : Expected(field, value, "a finite number above 0");
}

// base^exponent by squaring: multiplications alone, so that the bits are the same with every
// mathematical library.
double Power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

}  // namespace

absl::StatusOr<Optimizer> Optimizer::Create(const v1::OptimizerSpec& spec) {
  Optimizer optimizer;
  RETURN_IF_ERROR(CheckPositive("learning_rate", spec.learning_rate()));
  optimizer.learning_rate_ = spec.learning_rate();
  switch (spec.kind_case()) {
    case v1::OptimizerSpec::kSgd:
      return optimizer;
    case v1::OptimizerSpec::kMomentum:
      RETURN_IF_ERROR(CheckFraction("momentum.momentum", spec.momentum().momentum()));
      optimizer.kind_ = Kind::kMomentum;
      optimizer.state_count_ = 1;
      optimizer.momentum_ = spec.momentum().momentum();
      return optimizer;
    case v1::OptimizerSpec::kAdamw:
      RETURN_IF_ERROR(optimizer.SetAdamW(spec.adamw()));
      return optimizer;
    case v1::OptimizerSpec::KIND_NOT_SET:
    default:
      break;
  }
  return absl::InvalidArgumentError("optimizer: found none, expected one of sgd, momentum, adamw");
}

absl::Status Optimizer::SetAdamW(const v1::AdamWSpec& spec) {
  kind_ = Kind::kAdamW;
  state_count_ = 2;
  beta1_ = spec.has_beta1() ? spec.beta1() : 0.9f;
  beta2_ = spec.has_beta2() ? spec.beta2() : 0.999f;
  epsilon_ = spec.has_epsilon() ? spec.epsilon() : 1e-8f;
  weight_decay_ = spec.has_weight_decay() ? spec.weight_decay() : 0.01f;
  RETURN_IF_ERROR(CheckFraction("adamw.beta1", beta1_));
  RETURN_IF_ERROR(CheckFraction("adamw.beta2", beta2_));
  RETURN_IF_ERROR(CheckPositive("adamw.epsilon", epsilon_));
  if (weight_decay_ < 0 || !std::isfinite(weight_decay_)) {
    return Expected("adamw.weight_decay", weight_decay_, "a finite number of at least 0");
  }
  return absl::OkStatus();
}

AdamWStep Optimizer::AdamWStepOf(uint64_t step) const {
  AdamWStep s;
  s.learning_rate = learning_rate_;
  s.beta1 = beta1_;
  s.one_minus_beta1 = static_cast<float>(1.0 - static_cast<double>(beta1_));
  s.beta2 = beta2_;
  s.one_minus_beta2 = static_cast<float>(1.0 - static_cast<double>(beta2_));
  s.correction1 = static_cast<float>(1.0 / (1.0 - Power(beta1_, step + 1)));
  s.correction2 = static_cast<float>(1.0 / (1.0 - Power(beta2_, step + 1)));
  s.epsilon = epsilon_;
  return s;
}

void Optimizer::UpdateAdamW(uint64_t step, const Elements& e, const VectorKernels& kernels) const {
  AdamWStep s = AdamWStepOf(step);
  const auto run = [&](size_t begin, size_t end, float decay) {
    s.decay = decay;
    if (begin < end) {
      kernels.adamw(s, e.weights + begin, e.state[0] + begin, e.state[1] + begin, e.next + begin,
                    end - begin);
    }
  };
  size_t done = 0;
  for (const ElementRange& range : *e.decay) {
    run(done, range.begin, 0);
    run(range.begin, range.end, weight_decay_);
    done = range.end;
  }
  run(done, e.count, 0);
}

void Optimizer::Update(uint64_t step, const Elements& e, const VectorKernels& kernels) const {
  switch (kind_) {
    case Kind::kSgd:
      return kernels.sgd({learning_rate_}, e.weights, e.next, e.count);
    case Kind::kMomentum:
      return kernels.momentum({learning_rate_, momentum_}, e.weights, e.state[0], e.next, e.count);
    case Kind::kAdamW:
      return UpdateAdamW(step, e, kernels);
  }
}

}  // namespace sangam
