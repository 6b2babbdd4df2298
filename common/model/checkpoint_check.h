#ifndef SANGAM_COMMON_MODEL_CHECKPOINT_CHECK_H_
#define SANGAM_COMMON_MODEL_CHECKPOINT_CHECK_H_

#include <vector>

#include "common/model/field_fault.h"
#include "proto/job.pb.h"

namespace sangam {

// Faults of checkpoint and resume_from. (Whether there is such a checkpoint only the coordinator
// knows.)
void CheckCheckpoint(const v1::JobSpec& spec, std::vector<FieldFault>* faults);

// Fills in the defaults of checkpoint.
void ResolveCheckpoint(v1::JobSpec* spec);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_CHECKPOINT_CHECK_H_
