#ifndef SANGAM_COMMON_MODEL_WEIGHT_DECAY_H_
#define SANGAM_COMMON_MODEL_WEIGHT_DECAY_H_

#include "absl/strings/string_view.h"
#include "proto/model.pb.h"

namespace sangam {

// Whether a parameter's whole name is as DecayGroup.parameter says: '*' stands for any characters,
// also none, '?' for any one.
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

// The decay of a parameter: its first decay group's, else the optimizer's where decay applies by
// default, else 0. Running statistics have none.
// REQUIRES: ResolveOptimizer was called on `optimizer`.
float WeightDecayOf(const v1::OptimizerSpec& optimizer, const v1::ParameterLayout& parameter);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_WEIGHT_DECAY_H_
