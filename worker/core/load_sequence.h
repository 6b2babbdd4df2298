#ifndef SANGAM_WORKER_CORE_LOAD_SEQUENCE_H_
#define SANGAM_WORKER_CORE_LOAD_SEQUENCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "worker/core/step_program.h"
#include "worker/core/timeline.h"

namespace sangam {

// Which micro-batch (kTrain) or chunk (kEvaluate) of which round a lane loads.
struct Load {
  Round round;
  uint32_t index = 0;
};

// Everything that one lane will ever load, in order: what its programs' kLoadBatch instructions
// say, round after round. Lets data be prepared ahead of the lane. Not thread-safe.
class LoadSequence {
 public:
  // `train`, `evaluate`: of the worker, with this lane; borrowed, must outlive the sequence.
  LoadSequence(const Timeline& timeline, const StepProgram* train, const StepProgram* evaluate,
               size_t lane)
      : timeline_(timeline),
        train_(train),
        evaluate_(evaluate),
        lane_(lane),
        round_(timeline.First()) {}

  // Nothing after the last one.
  std::optional<Load> Next();

 private:
  Timeline timeline_;
  const StepProgram* train_;
  const StepProgram* evaluate_;
  size_t lane_;
  std::optional<Round> round_;
  uint32_t window_ = 0;  // of the round
  size_t position_ = 0;  // within the round's list
  uint32_t loaded_ = 0;  // micro-batches of the instruction there
};

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_LOAD_SEQUENCE_H_
