#ifndef SANGAM_SERVER_CORE_JOB_FORECAST_H_
#define SANGAM_SERVER_CORE_JOB_FORECAST_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "server/core/block_times.h"

namespace sangam {

// What the daemons of a cluster say of themselves, put to the planner. Pure. Forecasts of a large
// model take a while: longer than a lock should be held.

// What a job's forecasts depend on besides the job.
struct ClusterView {
  v1::ClusterFacts facts;
  // What is known of the model's blocks on these workers.
  std::vector<v1::BlockTime> measured;
};

// A cluster of these workers, in the order of the plan. Times of blocks come from what was measured
// of them on this kind of backend, when all workers have the same one.
// REQUIRES (also below): `spec` has been checked and its defaults resolved, `layout` is its
//                        model's.
ClusterView ViewOf(const std::vector<const v1::RegisterRequest*>& workers,
                   double link_bytes_per_second, const BlockTimes& times, const v1::JobSpec& spec,
                   const v1::ModelLayout& layout);

// What would become of the job on these workers, which may be fewer than it asks for.
// Errors: FailedPrecondition  there is none
absl::StatusOr<v1::PlanReport> PlanJob(const v1::JobSpec& spec, const v1::ModelLayout& layout,
                                       const ClusterView& view);

// Whether the job can run on these workers. OK when they are fewer than it asks for: it will wait.
// Errors: FailedPrecondition  it cannot, but it could if they had memory and threads enough
//         InvalidArgument     on no workers: the specification is at fault
absl::Status CheckFits(const v1::JobSpec& spec, const v1::ModelLayout& layout,
                       const ClusterView& view);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_JOB_FORECAST_H_
