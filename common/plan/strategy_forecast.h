#ifndef SANGAM_COMMON_PLAN_STRATEGY_FORECAST_H_
#define SANGAM_COMMON_PLAN_STRATEGY_FORECAST_H_

#include <cstdint>

#include "common/plan/cost_model.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {

// A job and the workers that it would run on, in the order of the plan; borrowed.
struct ForecastJob {
  const v1::JobSpec& spec;
  const v1::ModelLayout& layout;
  const v1::ClusterFacts& cluster;
  const CostModel& costs;
};

// One way to spread a job.
struct Spread {
  v1::Strategy strategy = v1::DATA_PARALLEL;
  uint32_t ranks = 1;
  uint32_t replicas = 1;
  uint32_t chunks = 1;
};

// The spread at its best: cut (by hand where the job says so), lanes and credits, with its memory
// and its time; `obstacle` says what keeps it from running. Pure.
//
// Lanes of a pipeline: as many as its slowest worker has threads and its smallest pipeline has
// shares; half of them, and again, when the memory allows no more. Credits: what keeps the schedule
// from waiting, or the least that it needs where only these leave enough memory.
//
// A cut that fits is taken before a faster one that does not. With several stages on each worker
// there are two to choose from: the fastest one, and the one whose fullest stage is leanest.
// REQUIRES: the cluster has ranks * replicas workers, the job `replicas` shares and ranks * chunks
//           blocks.
v1::StrategyForecast ForecastStrategy(const ForecastJob& job, const Spread& spread);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_STRATEGY_FORECAST_H_
