#ifndef SANGAM_COMMON_MODEL_DATA_CHECK_H_
#define SANGAM_COMMON_MODEL_DATA_CHECK_H_

#include <vector>

#include "common/model/field_fault.h"
#include "proto/job.pb.h"

namespace sangam {

// Appends the faults of `spec.data` that can be seen without the data, also where model, loss or
// evaluation do not go with it.
void CheckData(const v1::JobSpec& spec, std::vector<FieldFault>* faults);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_DATA_CHECK_H_
