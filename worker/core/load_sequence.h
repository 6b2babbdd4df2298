#ifndef SANGAM_WORKER_CORE_LOAD_SEQUENCE_H_
#define SANGAM_WORKER_CORE_LOAD_SEQUENCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

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
  // `train`, `evaluate`: the lane's lists; borrowed, must outlive the sequence.
  LoadSequence(const Timeline& timeline, const std::vector<Instruction>* train,
               const std::vector<Instruction>* evaluate)
      : timeline_(timeline), train_(train), evaluate_(evaluate), round_(timeline.First()) {}

  // Nothing after the last one.
  std::optional<Load> Next();

 private:
  Timeline timeline_;
  const std::vector<Instruction>* train_;
  const std::vector<Instruction>* evaluate_;
  std::optional<Round> round_;
  size_t position_ = 0;  // within the round's list
};

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_LOAD_SEQUENCE_H_
