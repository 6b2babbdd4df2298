#ifndef SANGAM_WORKER_CORE_TIMELINE_H_
#define SANGAM_WORKER_CORE_TIMELINE_H_

#include <cstdint>
#include <optional>

#include "worker/core/step_program.h"

namespace sangam {

// One round of a lane: the program of `kind`, with the weights of `step`.
struct Round {
  RoundKind kind = RoundKind::kTrain;
  uint64_t step = 0;

  friend bool operator==(Round a, Round b) { return a.kind == b.kind && a.step == b.step; }
};

// The order of a job's rounds: for each step its evaluation, when one is due, and its training; at
// the end the wait for the last weights and the last evaluation. Every lane of every worker goes
// through the same rounds. A value; pure.
struct Timeline {
  uint64_t first_step = 0;
  uint64_t steps_total = 0;            // T; the last weights are those of step T
  uint64_t steps_per_epoch = 1;        // > 0
  uint64_t evaluate_every_epochs = 0;  // 0: only at the end
  bool evaluate = true;                // false: never

  Round First() const { return FromStep(first_step); }
  // The round after `round`; nothing after the last.
  std::optional<Round> Next(Round round) const;

 private:
  bool EvaluationDue(uint64_t step) const;
  // The first round with the weights of `step`.
  Round FromStep(uint64_t step) const;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_TIMELINE_H_
