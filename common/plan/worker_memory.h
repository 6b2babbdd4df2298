#ifndef SANGAM_COMMON_PLAN_WORKER_MEMORY_H_
#define SANGAM_COMMON_PLAN_WORKER_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/plan/span.h"
#include "proto/job.pb.h"
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
  uint64_t total() const { return weights + gradients + activations + messages + batches; }
};

// Gradient buffers of one use that a worker with `lanes` lanes can need at once: being computed,
// waiting for a sibling in the span tree, and with the link (spans of this step and of the last).
uint64_t GradientBuffers(ShareSpan worker_shares, uint32_t shares, uint32_t lanes);

// Slots of one lane: what can be in flight of one chunk's micro-batches, and of batches of samples.
// REQUIRES: CheckStages(plan) is OK; `lanes` >= 1.
// Errors: InvalidArgument  a plan that contradicts itself
absl::StatusOr<WorkerMemory> MemoryOf(const v1::Plan& plan, const v1::JobSpec& spec,
                                      uint32_t worker, uint32_t lanes);

// Prepared batches of a lane that wait for it. (Those that it holds come on top: as many as its
// first chunk has micro-batches in flight.)
inline constexpr uint32_t kBatchesAhead = 2;

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_WORKER_MEMORY_H_
