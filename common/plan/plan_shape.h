#ifndef SANGAM_COMMON_PLAN_PLAN_SHAPE_H_
#define SANGAM_COMMON_PLAN_PLAN_SHAPE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {

// How a job is spread over its workers. By default data parallel over all of them.
struct PlanShape {
  uint32_t ranks = 1;     // workers of one pipeline
  uint32_t replicas = 0;  // pipelines; 0: as many as workers and shares allow
  v1::Schedule schedule = v1::ONE_F_ONE_B;
  uint32_t credits = 1;
  uint32_t lanes = 0;                 // 0 when ranks is 1
  std::vector<v1::StagePlan> stages;  // empty: one with all blocks
};

PlanShape ShapeOf(const v1::StrategyForecast& forecast);

// The part of a plan that says who computes what; `workers` need names, incarnations and addresses
// only. Depends on the arguments alone.
//
// Worker i is rank i % ranks of pipeline i / ranks, so a pipeline's workers are neighbours in the
// list. Pipeline p of R gets the shares EvenPart(S, R, p); pipelines evaluate in turn. The workers
// after the last pipeline are idle: no shares, no evaluation.
// REQUIRES: `spec` has been checked and its defaults resolved, `layout` is its model's.
// Errors: InvalidArgument  the shape wants more workers or shares than there are, or its stages do
//                          not cover the layout; names what was found and what was expected
absl::StatusOr<v1::Plan> SpreadJob(const PlanShape& shape,
                                   const std::vector<v1::WorkerPlan>& workers,
                                   const v1::JobSpec& spec, const v1::ModelLayout& layout);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_PLAN_SHAPE_H_
