#include "worker/core/timeline.h"

#include <cstdint>
#include <optional>

namespace sangam {

bool Timeline::EvaluationDue(uint64_t step) const {
  if (!evaluate || evaluate_every_epochs == 0 || step == 0 || step >= steps_total) return false;
  // Compared by division: the product of the two could overflow.
  return step % steps_per_epoch == 0 && step / steps_per_epoch % evaluate_every_epochs == 0;
}

Round Timeline::FromStep(uint64_t step) const {
  if (step >= steps_total) return {RoundKind::kFinish, steps_total};
  return {EvaluationDue(step) ? RoundKind::kEvaluate : RoundKind::kTrain, step};
}

std::optional<Round> Timeline::Next(Round round) const {
  switch (round.kind) {
    case RoundKind::kTrain:
      return FromStep(round.step + 1);
    case RoundKind::kFinish:
      if (!evaluate) return std::nullopt;
      return Round{RoundKind::kEvaluate, round.step};
    case RoundKind::kEvaluate:
      if (round.step >= steps_total) return std::nullopt;
      return Round{RoundKind::kTrain, round.step};
  }
  return std::nullopt;
}

}  // namespace sangam
