#ifndef SANGAM_SERVER_CORE_JOB_STATE_H_
#define SANGAM_SERVER_CORE_JOB_STATE_H_

#include "proto/job.pb.h"

namespace sangam {

// Whether a job may go from one state to another; the chain stands at JobState in proto/job.proto.
bool IsLegalChange(v1::JobState from, v1::JobState to);

// Whether nothing can change any more.
bool HasEnded(v1::JobState state);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_JOB_STATE_H_
