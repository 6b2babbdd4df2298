#ifndef SANGAM_COMMON_PLAN_FORECAST_H_
#define SANGAM_COMMON_PLAN_FORECAST_H_

#include <vector>

#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {

// What each strategy would need and take, which one the job gets, and why. Depends on the arguments
// alone. `cluster.worker` are the workers that the job would run on, in the order of the plan;
// `measured` are times of this model's blocks, where there are any.
//
// DATA_PARALLEL: one worker for each share, at most. MODEL_PARALLEL: one pipeline, of
// pipeline.workers or of as many workers and blocks as there are. HYBRID: at least two pipelines,
// of pipeline.workers or of whatever number of ranks is fastest among those that fit; one when the
// job has a single share and asks for HYBRID all the same.
//
// AUTO takes the least predicted time among those that fit; at equal times the first in the order
// above. Any other strategy is taken when it fits, and else none.
// REQUIRES: `spec` has been checked and its defaults resolved, `layout` is its model's.
v1::PlanReport MakeForecasts(const v1::JobSpec& spec, const v1::ModelLayout& layout,
                             const v1::ClusterFacts& cluster,
                             const std::vector<v1::BlockTime>& measured);

// Whether the job would get a strategy: MakeForecasts(...).feasible() for less work.
// REQUIRES: as MakeForecasts.
bool CanRun(const v1::JobSpec& spec, const v1::ModelLayout& layout,
            const v1::ClusterFacts& cluster);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_FORECAST_H_
