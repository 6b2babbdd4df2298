#include "worker/core/instruction.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace sangam {

std::string ToString(const Instruction& instruction) {
  const uint32_t block = instruction.block;
  const uint32_t index = instruction.index;
  switch (instruction.op) {
    case Op::kLoadBatch:
      return absl::StrCat("LoadBatch ", index);
    case Op::kAwaitWeights:
      return absl::StrCat("AwaitWeights b", block);
    case Op::kForward:
      return absl::StrCat("Forward b", block);
    case Op::kLoss:
      return absl::StrCat("Loss ", index);
    case Op::kBackward:
      return absl::StrCat("Backward b", block, instruction.input_gradient ? "" : " weights");
    case Op::kEmitGradient:
      return absl::StrCat("EmitGradient b", block, " share ", index);
    case Op::kEndShare:
      return absl::StrCat("EndShare ", index);
    case Op::kScore:
      return absl::StrCat("Score ", index);
    case Op::kEndEvaluation:
      return "EndEvaluation";
  }
  return "?";
}

}  // namespace sangam
