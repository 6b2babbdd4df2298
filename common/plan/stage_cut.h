#ifndef SANGAM_COMMON_PLAN_STAGE_CUT_H_
#define SANGAM_COMMON_PLAN_STAGE_CUT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {

// What a stage costs, in any unit: max(load, other).
struct StageCost {
  // Never less for a stage that holds this one; infinite when neither may be.
  double load = 0;
  // What need not grow with the stage, such as the transfer of its input; infinite when this stage
  // must not be, though a larger one might.
  double other = 0;
};

// Cost of the blocks [first, end) as stage `stage`.
using StageCosts = std::function<StageCost(uint32_t stage, uint32_t first, uint32_t end)>;

// Cuts `blocks` blocks into `stages` stages so that the dearest stage costs least; among such cuts
// prefers even ones, then those with fewer blocks in front, where a pipeline keeps more
// micro-batches in flight. Dynamic programming over the number of stages and their last block,
// exact for the first criterion (as PipeDream's partitioner without replication, Narayanan et al.
// 2019).
//
// Looks at some half a million stages at most. Where that is not enough, which takes thousands of
// blocks or costs that leave very many cuts open, blocks stay together by two, four, ..., and the
// cut is the best one of those.
// Errors: InvalidArgument    fewer blocks than stages, or none; names both numbers
//         ResourceExhausted  every cut (that was looked at) has a stage that must not be
absl::StatusOr<std::vector<v1::StagePlan>> CutBlocks(uint32_t blocks, uint32_t stages,
                                                     const StageCosts& costs);

// The stages that a user cut by hand.
// Errors: InvalidArgument  no such block, or not behind the cut before; names field and block
absl::StatusOr<std::vector<v1::StagePlan>> CutByNames(const v1::PipelineSpec& pipeline,
                                                      const v1::ModelLayout& layout);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_STAGE_CUT_H_
