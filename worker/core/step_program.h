#ifndef SANGAM_WORKER_CORE_STEP_PROGRAM_H_
#define SANGAM_WORKER_CORE_STEP_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "worker/core/instruction.h"

namespace sangam {

// The kinds of rounds that a lane goes through; see Timeline for their order.
enum class RoundKind {
  kTrain,     // one step: the worker's shares of one batch
  kEvaluate,  // the worker's chunks of the test set
  kFinish,    // the last weights have come
};

// What every lane of one worker does in a round: one list of instructions each. The same for every
// step of a job, whatever the size of its batch: instructions on a micro-batch without samples do
// nothing.
struct StepProgram {
  std::vector<std::vector<Instruction>> lanes;

  // A list does not grow with the test set: it is followed for one window of chunks after the
  // other, with indices that are larger by `stride` in each. Those from `end` on are left out.
  uint32_t windows = 1;
  uint64_t stride = 0;
  uint64_t end = UINT32_MAX;
};

// What a lane does in a window (< program.windows) where its list has `instruction`; nothing when
// it is left out there.
std::optional<Instruction> InWindow(const StepProgram& program, const Instruction& instruction,
                                    uint32_t window);

// What a program depends on besides the plan.
struct ProgramInputs {
  uint32_t worker = 0;             // index into Plan.worker
  uint32_t lanes = 1;              // see NumLanes
  uint64_t evaluation_chunks = 0;  // of the whole test set
  // For each block of the model: it recomputes, so its backward pass is never split. Empty: none.
  std::vector<bool> recompute;
  // So many shares are computed together, at most, in a training step of a worker that has the
  // whole model, when every micro-batch is a share: one pass over the rows of all, one sum of their
  // gradients in the order of the tree. For backends and blocks whose rows stand alone.
  uint32_t group = 1;
};

// Number of lanes of a worker with `threads` compute threads: in a pipeline those of the plan, else
// at most one for each of its shares. That every lane has a share of every step is what keeps a
// lane from falling behind: no weights of a later step can come while it still reads the earlier
// ones. Errors: InvalidArgument  the plan has no such worker, or its spans lie outside of the
// shares
absl::StatusOr<uint32_t> NumLanes(const v1::Plan& plan, uint32_t worker, uint32_t threads);

// The program of one worker for rounds of `kind`. Pure.
//
// Shares are dealt to the lanes in consecutive runs, evaluation chunks in turn (lane_deal.h); a
// lane goes through its micro-batches in the order of the plan's schedule. A block's weights are
// awaited just before the lane first uses them, and its gradient leaves right after the share's
// last backward of that block, while the blocks below are still to come. Errors: InvalidArgument  a
// plan that contradicts itself; names the field
absl::StatusOr<StepProgram> BuildStepProgram(const v1::Plan& plan, const ProgramInputs& inputs,
                                             RoundKind kind);

// Slots that the lists use of each chunk of the worker: the most of any lane.
std::vector<uint32_t> SlotsOf(const StepProgram& program, uint32_t chunks);

// One line for each instruction, below one line "lane <n>" for each lane.
std::string ToString(const StepProgram& program);

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_STEP_PROGRAM_H_
