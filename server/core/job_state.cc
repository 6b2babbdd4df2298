#include "server/core/job_state.h"

#include "proto/job.pb.h"

namespace sangam {

bool IsLegalChange(v1::JobState from, v1::JobState to) {
  switch (from) {
    case v1::QUEUED:
      return to == v1::STARTING || to == v1::FAILED || to == v1::CANCELLED;
    case v1::STARTING:
      return to == v1::RUNNING || to == v1::FAILED || to == v1::CANCELLED || to == v1::PREEMPTED;
    case v1::RUNNING:
      return to == v1::SUCCEEDED || to == v1::FAILED || to == v1::CANCELLED || to == v1::PREEMPTED;
    case v1::PREEMPTED:
      return to == v1::QUEUED;
    default:
      return false;
  }
}

bool HasEnded(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED || state == v1::CANCELLED;
}

}  // namespace sangam
