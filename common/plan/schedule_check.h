#ifndef SANGAM_COMMON_PLAN_SCHEDULE_CHECK_H_
#define SANGAM_COMMON_PLAN_SCHEDULE_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/schedule.h"

namespace sangam {

// Times of one stage's passes for one micro-batch, in any unit.
struct StageTimes {
  double forward = 1;
  double backward_input = 1;
  double backward_weights = 1;
  // From the end of a pass until its output is with the next stage (forward) or the stage before
  // (backward).
  double forward_transfer = 0;
  double backward_transfer = 0;
};

// An activation that jumps over stages; its gradient comes back the same way.
struct StageSkip {
  uint32_t from_stage = 0;
  uint32_t to_stage = 0;  // > from_stage
};

// What is played.
struct SchedulePlay {
  uint32_t ranks = 1;
  uint32_t chunks = 1;
  uint32_t micro_batches = 1;
  std::vector<std::vector<Pass>> passes;  // by rank
  std::vector<StageSkip> skips;
  // Tensors that may wait at the receiver for each boundary (also of each skip) and direction; a
  // worker that sends waits for room and does nothing else meanwhile. A tensor makes room when the
  // pass that needs it begins.
  uint32_t credits = UINT32_MAX;
  std::vector<StageTimes> times;  // by stage; empty: all 1 without transfer
};

struct ScheduleReport {
  double makespan = 0;
  std::vector<double> busy;          // by rank
  double bubble = 0;                 // 1 - mean busy / makespan
  std::vector<uint32_t> peak_stash;  // by rank: chunk-micro-batches kept at once
  uint32_t most_waiting = 0;         // most tensors that waited at one boundary and direction
};

// Plays all workers' lists at once.
// Errors: InvalidArgument     lists that do not have every pass exactly once, out of order, or
//                             numbers of ranks, times or stages that do not fit: a send without a
//                             receive or the reverse; names rank and pass
//         FailedPrecondition  deadlock; names for each rank the pass it cannot begin and what it
//                             waits for
absl::StatusOr<ScheduleReport> PlaySchedule(const SchedulePlay& play);

// The fewest credits with which `play` (its own credits disregarded) ends: what a job must grant.
// Errors: as PlaySchedule with unlimited credits
absl::StatusOr<uint32_t> LeastCredits(const SchedulePlay& play);

// The fewest credits with which it ends as early as with unlimited ones: the default.
absl::StatusOr<uint32_t> AmpleCredits(const SchedulePlay& play);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_SCHEDULE_CHECK_H_
