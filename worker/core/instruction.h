#ifndef SANGAM_WORKER_CORE_INSTRUCTION_H_
#define SANGAM_WORKER_CORE_INSTRUCTION_H_

#include <cstdint>
#include <string>

namespace sangam {

// What a lane (one compute thread) of a worker does next. A program is a list of these, fixed
// before the step; the trainer only follows it. Strategies and schedules differ in their lists, not
// in the trainer: a worker of a pipeline receives and sends where a worker alone would use what it
// has.
//
// A micro-batch in flight has a slot of its stage: from its LoadBatch, Receive or first Forward to
// its Release.
enum class Op {
  // Takes the prepared micro-batch `index` into the slot.
  kLoadBatch,
  // Waits for the activation of micro-batch `index` that crosses `boundary`, and keeps it.
  kReceive,
  // Waits until the weights of `block` are those of the round's step. Where the block's kForward is
  // the next of the list, the wait may be left to it.
  kAwaitWeights,
  // Computes the output of `block` from the output of the block below it (or from the batch).
  kForward,
  // Sends the activation that crosses `boundary`.
  kSend,
  // Loss of micro-batch `index`, added to the share's, and its gradient with respect to the
  // outputs.
  kLoss,
  // Share `index` has its last loss: hands it on.
  kEndShare,
  // Waits for the gradient with respect to the activation that crossed `boundary`.
  kReceiveGradient,
  // Gradients of `block` from the gradient of its output; with respect to the weights they add up
  // over the share's micro-batches, with respect to the input they are computed when
  // `input_gradient`.
  kBackward,
  // The same in two parts, the second at a later time.
  kBackwardInput,
  kBackwardWeights,
  // Sends the gradient with respect to the activation that crossed `boundary`.
  kSendGradient,
  // The gradient of `block` for share `index` is final: hands it on to be merged and sent. Where it
  // comes right after the backward pass that completes it, parts may have been sent by then.
  kEmitGradient,
  // The micro-batch of the slot is done: lets go of all that was kept for it.
  kRelease,
  // Loss and hits of evaluation chunk `index`.
  kScore,
  // The lane has scored its last chunk: hands the scores on.
  kEndEvaluation,
};

struct Instruction {
  Op op = Op::kLoadBatch;
  uint32_t block = 0;
  uint32_t index = 0;  // micro-batch, chunk or share
  uint32_t chunk = 0;  // the worker's stage
  uint32_t slot = 0;   // of the stage
  uint32_t boundary = 0;
  bool input_gradient = false;
  // Micro-batches (for kEmitGradient: shares) from `index` on that are computed together.
  uint32_t count = 1;

  friend bool operator==(const Instruction& a, const Instruction& b) {
    return a.op == b.op && a.block == b.block && a.index == b.index && a.chunk == b.chunk &&
           a.slot == b.slot && a.boundary == b.boundary && a.input_gradient == b.input_gradient &&
           a.count == b.count;
  }
};

// "Forward b1 mb 3", "Send boundary 1 mb 3", "EmitGradient b0 share 2"; for people and golden
// tests.
std::string ToString(const Instruction& instruction);

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_INSTRUCTION_H_
