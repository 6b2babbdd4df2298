#ifndef SANGAM_SERVER_CORE_STEP_RULES_H_
#define SANGAM_SERVER_CORE_STEP_RULES_H_

#include <cstdint>
#include <vector>

#include "proto/job.pb.h"
#include "proto/parameter_service.pb.h"

namespace sangam {

// What a job decides about each step as a whole, and how.
struct StepRules {
  // Whether the pages vote at all; without votes each one updates as soon as its gradient is there.
  bool votes = false;
  // Whether a second round gives LAMB's trust ratios.
  bool trust_ratios = false;
  // A step with a gradient that is not finite is left out by all pages; otherwise it is an error.
  bool skip_not_finite = false;
  // Clipping: of the global norm; 0: none.
  float max_norm = 0;
};

StepRules RulesOf(const v1::JobSpec& spec);

// What every gradient is multiplied with: min(1, max_norm / (norm + 1e-6)), in double, rounded
// once.
float ClippingScale(double squared_norm, float max_norm);

// |w| / |r| of the given parameters, or 1 where either norm is 0, in double, rounded once; by the
// decision on round 1.
// REQUIRES: there are two sums for each of the parameters.
std::vector<float> TrustRatios(const v1::StepDecision& decision,
                               const std::vector<uint32_t>& parameters);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_STEP_RULES_H_
