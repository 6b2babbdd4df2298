#ifndef SANGAM_WORKER_CORE_LANE_PROGRAM_H_
#define SANGAM_WORKER_CORE_LANE_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "common/plan/pipeline_layout.h"
#include "common/plan/schedule.h"
#include "proto/plan.pb.h"
#include "worker/core/instruction.h"

namespace sangam {

// A micro-batch of a lane, and the share that it ends.
struct LaneMicroBatch {
  uint32_t index = 0;  // within the step, or chunk of the evaluation
  uint32_t share = 0;
  bool last_of_share = false;
  // More than 1: so many micro-batches from `index` on, computed together; each is a share of its
  // own, and the shares are a node of the tree.
  uint32_t count = 1;
};

// Turns the passes of a schedule into instructions for one lane of a worker: what is loaded,
// received, computed, sent and given away in each pass, and in which slot. Pure.
class LaneProgram {
 public:
  // `recompute`: for each block of the model whether it recomputes, so that its backward pass
  // cannot be split. Everything is borrowed. REQUIRES: CheckStages(*plan) is OK.
  LaneProgram(const v1::Plan* plan, uint32_t worker, const std::vector<bool>* recompute);

  // One training step. `passes`: of the worker's rank, over positions in `micro_batches`.
  std::vector<Instruction> Train(const std::vector<Pass>& passes,
                                 const std::vector<LaneMicroBatch>& micro_batches) const;

  // Forward passes only; the lane's scores end with it where the last block is.
  std::vector<Instruction> Evaluate(const std::vector<Pass>& passes,
                                    const std::vector<LaneMicroBatch>& chunks) const;

  // The weights of every block of the worker.
  std::vector<Instruction> AwaitAll() const;

 private:
  // One of the worker's stages.
  struct Stage {
    uint32_t first = 0;  // blocks [first, end)
    uint32_t end = 0;
    std::vector<Boundary> inputs;   // activations that come, by id
    std::vector<Boundary> outputs;  // activations that leave, by id
  };
  class Writer;

  bool HasWeights(uint32_t block) const;
  // Whether anybody needs the gradient with respect to the output of `block`.
  bool WantsGradient(uint32_t block) const { return block >= first_trained_; }
  bool Splits(uint32_t block) const { return HasWeights(block) && !(*recompute_)[block]; }

  const v1::Plan* const plan_;
  const std::vector<bool>* const recompute_;
  uint32_t num_blocks_ = 0;
  // Lowest block of the model with parameters: no gradient is needed below it.
  uint32_t first_trained_ = 0;
  std::vector<Stage> stages_;  // by chunk
};

// Slots of each chunk that the instructions use.
std::vector<uint32_t> SlotsOf(const std::vector<Instruction>& list, uint32_t chunks);

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_LANE_PROGRAM_H_
