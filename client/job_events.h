#ifndef SANGAM_CLIENT_JOB_EVENTS_H_
#define SANGAM_CLIENT_JOB_EVENTS_H_

#include "proto/job.pb.h"
#include "proto/job_service.pb.h"

namespace sangam {

// Brings what is known of a job up to an event that the coordinator has sent: state, history,
// progress and evaluations. Pure. For a client that can no longer ask.
void ApplyEvent(const v1::JobEvent& event, v1::Job* job);

}  // namespace sangam

#endif  // SANGAM_CLIENT_JOB_EVENTS_H_
