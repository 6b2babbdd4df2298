#include "worker/core/instruction.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace sangam {

std::string ToString(const Instruction& instruction) {
  const std::string block = absl::StrCat(" b", instruction.block);
  const std::string index =
      instruction.count == 1
          ? absl::StrCat(instruction.index)
          : absl::StrCat(instruction.index, "-", instruction.index + instruction.count - 1);
  const std::string micro_batch = absl::StrCat(" mb ", index);
  const std::string boundary = absl::StrCat(" boundary ", instruction.boundary, micro_batch);
  const std::string share = absl::StrCat(" share ", index);
  const char* const weights_only = instruction.input_gradient ? "" : " weights only";
  switch (instruction.op) {
    case Op::kLoadBatch:
      return absl::StrCat("LoadBatch", micro_batch);
    case Op::kReceive:
      return absl::StrCat("Receive", boundary);
    case Op::kAwaitWeights:
      return absl::StrCat("AwaitWeights", block);
    case Op::kForward:
      return absl::StrCat("Forward", block, micro_batch);
    case Op::kSend:
      return absl::StrCat("Send", boundary);
    case Op::kLoss:
      return absl::StrCat("Loss", micro_batch);
    case Op::kEndShare:
      return absl::StrCat("EndShare", share);
    case Op::kReceiveGradient:
      return absl::StrCat("ReceiveGradient", boundary);
    case Op::kBackward:
      return absl::StrCat("Backward", block, micro_batch, weights_only);
    case Op::kBackwardInput:
      return absl::StrCat("BackwardInput", block, micro_batch,
                          instruction.input_gradient ? "" : " none");
    case Op::kBackwardWeights:
      return absl::StrCat("BackwardWeights", block, micro_batch);
    case Op::kSendGradient:
      return absl::StrCat("SendGradient", boundary);
    case Op::kEmitGradient:
      return absl::StrCat("EmitGradient", block, share);
    case Op::kRelease:
      return absl::StrCat("Release", micro_batch);
    case Op::kScore:
      return absl::StrCat("Score", micro_batch);
    case Op::kEndEvaluation:
      return "EndEvaluation";
  }
  return "?";
}

}  // namespace sangam
