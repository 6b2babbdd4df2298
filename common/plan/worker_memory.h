#ifndef SANGAM_COMMON_PLAN_WORKER_MEMORY_H_
#define SANGAM_COMMON_PLAN_WORKER_MEMORY_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/span.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {

// What one worker holds while it trains, in bytes; data sets that it reads itself come on top. The
// planner chooses by these numbers and the worker checks its limit with the same ones.
struct WorkerMemory {
  uint64_t weights = 0;      // one copy of each segment that it needs
  uint64_t gradients = 0;    // GradientBuffers of each use
  uint64_t activations = 0;  // stash of the micro-batches in flight, and scratch
  uint64_t messages = 0;     // tensors that wait, at either end of the worker's links
  uint64_t batches = 0;      // prepared samples
  // At most 2^64 - 1, like each of its parts: what does not fit 64 bits fits no worker.
  uint64_t total() const;
};

// Gradient buffers of one use that a worker with `lanes` lanes can need at once: being computed,
// waiting for a sibling in the span tree, and with the link (spans of this step and of the last).
uint64_t GradientBuffers(ShareSpan worker_shares, uint32_t shares, uint32_t lanes);

// The different numbers of micro-batches that lanes have when the shares are dealt to `lanes` lanes
// in consecutive runs; lanes without shares do not count. REQUIRES: lanes >= 1, shares within [0,
// plan.shares).
std::set<uint32_t> LaneMicroBatches(const v1::Plan& plan, ShareSpan shares, uint32_t lanes);

// Micro-batches in flight at once on any one lane of a worker, at most, for each of its chunks:
// none for a worker without shares, one when it has the whole model in one stage. REQUIRES: as
// MemoryOf.
std::vector<uint32_t> LaneSlots(const v1::Plan& plan, uint32_t worker, uint32_t lanes);

// What decides the memory of a worker besides its blocks.
struct WorkerLoad {
  uint64_t rows = 1;  // samples of the largest micro-batch
  uint32_t lanes = 1;
  uint32_t credits = 1;
  uint64_t gradient_buffers = 1;  // of each use
  bool splits_backward = false;   // the schedule does
  std::vector<uint32_t> slots;    // LaneSlots
};

// The memory of a worker that holds `stages`, one for each of load.slots.
//
// Activations, for each lane and chunk: the stash of each slot, and the scratch of a pass: once, or
// with each slot when backward is split, because the pass over the weights needs it again (blocks
// that recompute make it anew, so once). With each slot also the gradient of a block's output where
// it is the loss's, a sum of several (skip connections), or must outlive the pass of a block behind
// that recomputes when backward is split; and the sum that a skip connection makes.
//
// Messages, for each lane, boundary and direction: `credits` tensors at either end, and where they
// arrive one more for each slot of the chunk that has most.
//
// Batches, for each lane: kBatchesAhead and one with each slot, inputs where the first block is,
// labels where the last one is.
// REQUIRES: the stages lie within the layout.
WorkerMemory MemoryOfStages(const v1::ModelLayout& layout, const v1::ModelSpec& model,
                            const std::vector<v1::StagePlan>& stages, const WorkerLoad& load);

// The memory of one worker of a plan.
// REQUIRES: CheckStages(plan) is OK; `lanes` >= 1.
// Errors: InvalidArgument  a plan that contradicts itself
absl::StatusOr<WorkerMemory> MemoryOf(const v1::Plan& plan, const v1::JobSpec& spec,
                                      uint32_t worker, uint32_t lanes);

// Prepared batches of a lane that wait for it. (Those that it holds come on top: as many as its
// first chunk has micro-batches in flight.)
inline constexpr uint32_t kBatchesAhead = 2;

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_WORKER_MEMORY_H_
