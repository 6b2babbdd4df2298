#include "common/plan/plan_shape.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/plan/batch_cut.h"
#include "common/plan/pipeline_layout.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

// Errors: InvalidArgument  there are not enough workers or shares
absl::StatusOr<uint32_t> ResolveReplicas(const PlanShape& shape, uint64_t workers,
                                         uint32_t shares) {
  if (shape.ranks == 0) return absl::InvalidArgumentError("ranks: found 0, expected at least 1");
  const uint64_t room = workers / shape.ranks;
  const uint64_t wanted =
      shape.replicas == 0 ? std::min<uint64_t>(room, shares) : uint64_t{shape.replicas};
  if (wanted == 0 || wanted > room) {
    return absl::InvalidArgumentError(
        absl::StrCat("workers: found ", workers, ", expected at least ",
                     std::max<uint64_t>(wanted, 1), " pipelines of ", shape.ranks));
  }
  if (wanted > shares) {
    return absl::InvalidArgumentError(
        absl::StrCat("replicas: found ", wanted, ", expected at most the ", shares, " shares"));
  }
  return static_cast<uint32_t>(wanted);
}

}  // namespace

PlanShape ShapeOf(const v1::StrategyForecast& forecast) {
  PlanShape shape;
  shape.ranks = forecast.ranks();
  shape.replicas = forecast.replicas();
  shape.schedule = forecast.schedule();
  shape.credits = forecast.credits();
  shape.lanes = forecast.lanes();
  for (const v1::StageForecast& stage : forecast.stage()) {
    v1::StagePlan plan;
    plan.set_first_block(stage.first_block());
    plan.set_block_count(stage.block_count());
    shape.stages.push_back(plan);
  }
  return shape;
}

absl::StatusOr<v1::Plan> SpreadJob(const PlanShape& shape,
                                   const std::vector<v1::WorkerPlan>& workers,
                                   const v1::JobSpec& spec, const v1::ModelLayout& layout) {
  v1::Plan plan;
  *plan.mutable_layout() = layout;
  plan.set_micro_batches(spec.batch().micro_batches());
  plan.set_shares(spec.batch().shares());
  plan.set_ranks(shape.ranks);
  plan.set_schedule(shape.ranks == 1 ? v1::ONE_F_ONE_B : shape.schedule);
  plan.set_credits(std::max<uint32_t>(1, shape.credits));
  plan.set_lanes(shape.ranks == 1 ? 0 : std::max<uint32_t>(1, shape.lanes));
  for (const v1::StagePlan& stage : shape.stages) *plan.add_stage() = stage;
  if (shape.stages.empty()) {
    plan.add_stage()->set_block_count(static_cast<uint32_t>(layout.block_size()));
  }
  ASSIGN_OR_RETURN(const uint32_t replicas, ResolveReplicas(shape, workers.size(), plan.shares()));
  for (uint64_t i = 0; i < workers.size(); ++i) {
    v1::WorkerPlan* worker = plan.add_worker();
    *worker = workers[i];
    worker->set_rank(static_cast<uint32_t>(i % shape.ranks));
    const uint64_t replica = i / shape.ranks;
    const IndexRange shares = replica < replicas ? EvenPart(plan.shares(), replicas, replica)
                                                 : IndexRange{plan.shares(), plan.shares()};
    worker->mutable_shares()->set_begin(static_cast<uint32_t>(shares.begin));
    worker->mutable_shares()->set_end(static_cast<uint32_t>(shares.end));
    if (spec.evaluation().off() || replica >= replicas) continue;
    worker->set_evaluation_part(static_cast<uint32_t>(replica));
    worker->set_evaluation_parts(replicas);
  }
  RETURN_IF_ERROR(CheckStages(plan));
  return plan;
}

}  // namespace sangam
