#include "server/core/step_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "proto/job.pb.h"
#include "proto/parameter_service.pb.h"

namespace sangam {
namespace {

// As in PyTorch's clip_grad_norm_.
constexpr double kNormEpsilon = 1e-6;

}  // namespace

StepRules RulesOf(const v1::JobSpec& spec) {
  StepRules rules;
  rules.trust_ratios = spec.optimizer().has_lamb();
  rules.skip_not_finite = spec.on_nonfinite() == v1::SKIP_STEP;
  rules.max_norm = spec.optimizer().has_clipping() ? spec.optimizer().clipping().max_norm() : 0;
  rules.votes = rules.trust_ratios || rules.skip_not_finite || rules.max_norm > 0;
  return rules;
}

float ClippingScale(double squared_norm, float max_norm) {
  if (!(max_norm > 0)) return 1;
  const double norm = std::sqrt(squared_norm);
  return static_cast<float>(std::min(1.0, double{max_norm} / (norm + kNormEpsilon)));
}

std::vector<float> TrustRatios(const v1::StepDecision& decision,
                               const std::vector<uint32_t>& parameters) {
  std::vector<float> ratios;
  ratios.reserve(parameters.size());
  for (const uint32_t parameter : parameters) {
    const double weights = decision.sum(static_cast<int>(2 * parameter));
    const double direction = decision.sum(static_cast<int>(2 * parameter + 1));
    ratios.push_back(weights > 0 && direction > 0
                         ? static_cast<float>(std::sqrt(weights) / std::sqrt(direction))
                         : 1.0f);
  }
  return ratios;
}

}  // namespace sangam
