#ifndef SANGAM_SERVER_CORE_JOB_FORECAST_H_
#define SANGAM_SERVER_CORE_JOB_FORECAST_H_

#include <vector>

#include "absl/status/status.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "server/core/block_times.h"

namespace sangam {

// What the daemons of a cluster say of themselves, put to the planner. Pure.

// A job and the workers that it would run on, in the order of the plan. Borrowed.
struct JobOnWorkers {
  const v1::JobSpec& spec;  // checked, defaults resolved
  const v1::ModelLayout& layout;
  std::vector<const v1::RegisterRequest*> workers;  // at least one
};

// How every strategy would do. Times of blocks come from what was measured of them on this kind of
// backend, when all workers have the same one.
v1::PlanReport ForecastOf(const JobOnWorkers& job, double link_bytes_per_second,
                          const BlockTimes& times);

// Whether the job can run as `report`, its forecast, says.
// Errors: FailedPrecondition  not on these workers, but it could if their memory were large enough
//         InvalidArgument     on no workers: the specification is at fault
absl::Status CheckFeasible(const v1::PlanReport& report, const JobOnWorkers& job);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_JOB_FORECAST_H_
