#ifndef SANGAM_COMMON_MODEL_OPTIMIZER_CHECK_H_
#define SANGAM_COMMON_MODEL_OPTIMIZER_CHECK_H_

#include <vector>

#include "common/model/field_fault.h"
#include "proto/model.pb.h"

namespace sangam {

// Appends the faults of an optimizer that can be seen without the model: numbers out of range.
void CheckOptimizer(const v1::OptimizerSpec& optimizer, std::vector<FieldFault>* faults);

// Appends a fault for each decay group that matches no parameter that is trained.
void CheckDecayGroups(const v1::OptimizerSpec& optimizer, const v1::ModelLayout& layout,
                      std::vector<FieldFault>* faults);

// Sets every optional field of what is there to what its absence means.
void ResolveOptimizer(v1::OptimizerSpec* optimizer);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_OPTIMIZER_CHECK_H_
