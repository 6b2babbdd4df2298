#ifndef SANGAM_COMMON_MODEL_JOB_CHECK_H_
#define SANGAM_COMMON_MODEL_JOB_CHECK_H_

#include <vector>

#include "common/model/field_fault.h"
#include "proto/job.pb.h"

namespace sangam {

// Every fault of a job that can be seen without the data; empty: the job is valid.
std::vector<FieldFault> CheckJobSpec(const v1::JobSpec& spec);

// The same job with every optional field set to what its absence means. Two jobs with equal
// resolved forms give equal results.
// REQUIRES: CheckJobSpec(spec) is empty.
v1::JobSpec ResolveDefaults(v1::JobSpec spec);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_JOB_CHECK_H_
