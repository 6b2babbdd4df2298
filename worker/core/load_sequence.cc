#include "worker/core/load_sequence.h"

#include <optional>
#include <vector>

#include "worker/core/instruction.h"
#include "worker/core/step_program.h"

namespace sangam {

std::optional<Load> LoadSequence::Next() {
  while (round_.has_value()) {
    const StepProgram* program = round_->kind == RoundKind::kTrain      ? train_
                                 : round_->kind == RoundKind::kEvaluate ? evaluate_
                                                                        : nullptr;
    for (; program != nullptr && window_ < program->windows; ++window_) {
      const std::vector<Instruction>& list = program->lanes[lane_];
      while (position_ < list.size()) {
        const Instruction& instruction = list[position_];
        const bool loads = instruction.op == Op::kLoadBatch && loaded_ < instruction.count;
        if (!loads) {
          ++position_;
          loaded_ = 0;
          continue;
        }
        const uint32_t within = loaded_++;
        const std::optional<Instruction> load = InWindow(*program, instruction, window_);
        if (load.has_value()) return Load{*round_, load->index + within};
      }
      position_ = 0;
    }
    window_ = 0;
    round_ = timeline_.Next(*round_);
  }
  return std::nullopt;
}

}  // namespace sangam
