#ifndef SANGAM_WORKER_RUNTIME_REHEARSAL_H_
#define SANGAM_WORKER_RUNTIME_REHEARSAL_H_

#include <cstdint>

#include "absl/status/status.h"

namespace sangam {

struct PreparedJob;

// Has lane `index` of `job` go through one micro-batch of the largest size without computing
// anything, so that its backend takes now whatever memory its operations need besides their
// matrices, and not in the first step. Does nothing where the host's memory is the backend's.
// REQUIRES: all of the job's lanes have their memory; no step has begun.
// Errors: ResourceExhausted  the memory cannot be had; says how much
absl::Status RehearseLane(PreparedJob* job, uint32_t index);

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_REHEARSAL_H_
