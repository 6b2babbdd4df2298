#ifndef SANGAM_COMMON_MODEL_STRATEGY_CHECK_H_
#define SANGAM_COMMON_MODEL_STRATEGY_CHECK_H_

#include <vector>

#include "common/model/field_fault.h"
#include "proto/job.pb.h"

namespace sangam {

// Appends the faults of `spec.strategy` and `spec.pipeline` that can be seen without a cluster.
// Whether a strategy fits the workers that are there is the planner's question.
void CheckStrategy(const v1::JobSpec& spec, std::vector<FieldFault>* faults);

// Sets the strategy, and what the absence of a pipeline's fields means. The number of a pipeline's
// workers and the cut stay open: the planner chooses them.
// REQUIRES: CheckStrategy found no fault.
void ResolveStrategy(v1::JobSpec* spec);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_STRATEGY_CHECK_H_
