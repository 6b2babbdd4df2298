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

// What a stage costs, in any unit: max(load, entry).
struct StageCost {
  // Never less for more blocks; infinite when the stage must not be.
  double load = 0;
  // What depends on the first block alone, such as the transfer of its input.
  double entry = 0;
};

// Cost of the blocks [first, end) as stage `stage`.
using StageCosts = std::function<StageCost(uint32_t stage, uint32_t first, uint32_t end)>;

// Cuts `blocks` blocks into `stages` stages so that the dearest stage costs least; among such cuts
// prefers even ones, then those with fewer blocks in front, where a pipeline keeps more
// micro-batches in flight. Dynamic programming over the number of stages and their last block,
// exact for the first criterion (as PipeDream's partitioner without replication, Narayanan et al.
// 2019). Errors: InvalidArgument    fewer blocks than stages, or none; names both numbers
//         ResourceExhausted  every cut has a stage that must not be
absl::StatusOr<std::vector<v1::StagePlan>> CutBlocks(uint32_t blocks, uint32_t stages,
                                                     const StageCosts& costs);

// The stages that a user cut by hand.
// Errors: InvalidArgument  no such block, or not behind the cut before; names field and block
absl::StatusOr<std::vector<v1::StagePlan>> CutByNames(const v1::PipelineSpec& pipeline,
                                                      const v1::ModelLayout& layout);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_STAGE_CUT_H_
