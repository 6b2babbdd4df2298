#ifndef SANGAM_COMMON_PLAN_SCHEDULE_H_
#define SANGAM_COMMON_PLAN_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

// Pipeline schedules as data: for each worker of a pipeline the list of its passes, in order. Pure
// functions of the shape; the trainer follows the lists, the checker (schedule_check.h) plays them.
//
// A pipeline has `ranks` workers; worker r holds the `chunks` stages r, r + ranks, r + 2 ranks, ...
// of the ranks * chunks stages. Every list has one forward and one backward pass for each chunk and
// micro-batch; the backward passes of a chunk, and those of its weights, come in the order of the
// micro-batches, so gradients add up in the same order under every schedule.
namespace sangam {

enum class PassKind {
  kForward,
  kBackward,         // with respect to input and weights
  kBackwardInput,    // split: with respect to the input,
  kBackwardWeights,  // and, later, with respect to the weights
};

struct Pass {
  PassKind kind = PassKind::kForward;
  uint32_t chunk = 0;        // the worker's stage chunk * ranks + rank
  uint32_t micro_batch = 0;  // position among the pipeline's micro-batches

  friend bool operator==(const Pass& a, const Pass& b) {
    return a.kind == b.kind && a.chunk == b.chunk && a.micro_batch == b.micro_batch;
  }
};

// "F0 F1 B0 W0"; with several chunks "F0.1" is micro-batch 0 of chunk 1.
std::string ToString(const std::vector<Pass>& passes, uint32_t chunks);

struct ScheduleShape {
  v1::Schedule schedule = v1::ONE_F_ONE_B;
  uint32_t ranks = 1;          // >= 1
  uint32_t chunks = 1;         // >= 1; > 1 with INTERLEAVED only
  uint32_t micro_batches = 1;  // M >= 1, also below `ranks`
};

// Whether the schedule splits backward.
bool SplitsBackward(v1::Schedule schedule);

// The passes of one worker in a training step. Sources: GPIPE and ONE_F_ONE_B as the papers in
// proto/job.proto; INTERLEAVED with groups of micro-batches of nearly equal size, which needs no
// divisibility; ZERO_BUBBLE is ZB-H1.
// REQUIRES: rank < shape.ranks; the shape is as said above.
std::vector<Pass> RankPasses(const ScheduleShape& shape, uint32_t rank);

// The passes of one worker in an evaluation: forward only, in an order in which every tensor that
// is waited for has been sent before with one credit. With several chunks, skip connections that
// lead once around the ranks or further need up to min(ranks, M) credits: LeastCredits knows.
std::vector<Pass> RankForwards(const ScheduleShape& shape, uint32_t rank);

// Micro-batches of one chunk whose activations a worker keeps at once, at most: from their forward
// pass to the end of their backward pass (of the weights, when split). One value for each chunk.
std::vector<uint32_t> InFlight(const std::vector<Pass>& passes, uint32_t chunks);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_SCHEDULE_H_
