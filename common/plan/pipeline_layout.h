#ifndef SANGAM_COMMON_PLAN_PIPELINE_LAYOUT_H_
#define SANGAM_COMMON_PLAN_PIPELINE_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

// What follows from a plan's stages: who computes which blocks with which parameters, and where
// tensors cross from stage to stage.
namespace sangam {

// Errors: InvalidArgument  ranks, stages, workers or schedule contradict one another or the layout,
//                          or blocks of the layout one another; names the field. The functions
//                          below require a plan that passes.
absl::Status CheckStages(const v1::Plan& plan);

// Number of stages on each worker.
uint32_t ChunksOf(const v1::Plan& plan);

// Index into Plan.stage of the worker's stage `chunk`.
inline uint32_t StageOf(const v1::Plan& plan, uint32_t worker, uint32_t chunk) {
  return chunk * plan.ranks() + plan.worker(static_cast<int>(worker)).rank();
}

// The stage of a block.
uint32_t StageOfBlock(const v1::Plan& plan, uint32_t block);

// The blocks that a worker computes, in order; none when it has no shares.
std::vector<uint32_t> BlocksOf(const v1::Plan& plan, uint32_t worker);

// Whether the worker computes the first or the last block of the model (and has shares).
bool HasFirstBlock(const v1::Plan& plan, uint32_t worker);
bool HasLastBlock(const v1::Plan& plan, uint32_t worker);

// Parameters that a block computes with.
struct ParameterUse {
  uint32_t block = 0;
  uint32_t segment = 0;
  uint32_t use = 0;   // index into SegmentLayout.use
  bool tied = false;  // shared with an earlier block (BlockLayout.tied_segment)
};

// Those of one worker's blocks, by block, a block's own before tied ones.
std::vector<ParameterUse> UsesOf(const v1::Plan& plan, uint32_t worker);

// The segments that one worker needs, ascending, each once.
std::vector<uint32_t> SegmentsOf(const v1::Plan& plan, uint32_t worker);

// A place where an activation leaves its stage, and its gradient comes back.
struct Boundary {
  uint32_t id = 0;          // FrameHeader.boundary
  uint32_t from_block = 0;  // whose output crosses
  uint32_t to_block = 0;    // that reads it
  uint32_t from_stage = 0;
  uint32_t to_stage = 0;
  uint64_t columns = 0;  // elements of one sample

  friend bool operator==(const Boundary& a, const Boundary& b) { return a.id == b.id; }
};

// All of the plan, by id: first the chain's, then the skip connections'.
std::vector<Boundary> BoundariesOf(const v1::Plan& plan);

// The worker of rank `rank` in the pipeline that `worker` belongs to.
// Errors: InvalidArgument  the plan has none
absl::StatusOr<uint32_t> PeerOf(const v1::Plan& plan, uint32_t worker, uint32_t rank);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_PIPELINE_LAYOUT_H_
