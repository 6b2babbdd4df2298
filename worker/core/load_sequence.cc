#include "worker/core/load_sequence.h"

#include <optional>
#include <vector>

#include "worker/core/instruction.h"
#include "worker/core/step_program.h"

namespace sangam {

std::optional<Load> LoadSequence::Next() {
  while (round_.has_value()) {
    const std::vector<Instruction>* list = round_->kind == RoundKind::kTrain      ? train_
                                           : round_->kind == RoundKind::kEvaluate ? evaluate_
                                                                                  : nullptr;
    while (list != nullptr && position_ < list->size()) {
      const Instruction& instruction = (*list)[position_++];
      if (instruction.op == Op::kLoadBatch) return Load{*round_, instruction.index};
    }
    position_ = 0;
    round_ = timeline_.Next(*round_);
  }
  return std::nullopt;
}

}  // namespace sangam
