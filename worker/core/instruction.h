#ifndef SANGAM_WORKER_CORE_INSTRUCTION_H_
#define SANGAM_WORKER_CORE_INSTRUCTION_H_

#include <cstdint>
#include <string>

namespace sangam {

// What a lane (one compute thread) of a worker does next. A program is a list of these, fixed
// before the step; the trainer only follows it. Strategies differ in their lists, not in the
// trainer: a pipeline stage replaces LoadBatch by a receive of activations, Score by a send, and so
// on.
enum class Op {
  // Takes the prepared micro-batch `index`; the lane's one before it is given back.
  kLoadBatch,
  // Waits until the weights of `block` are those of the round's step.
  kAwaitWeights,
  // Computes the output of `block` from the output of the block below it (or from the batch).
  kForward,
  // Loss of micro-batch `index`, added to the share's, and its gradient with respect to the
  // outputs.
  kLoss,
  // Gradients of `block` from the gradient of its output; with respect to the weights they add up
  // over the share's micro-batches, with respect to the input they are computed when
  // `input_gradient`.
  kBackward,
  // The gradient of `block` for share `index` is final: hands it on to be merged and sent.
  kEmitGradient,
  // Share `index` is done: hands on its loss.
  kEndShare,
  // Loss and hits of evaluation chunk `index`.
  kScore,
  // The lane has scored its last chunk: hands the scores on.
  kEndEvaluation,
};

struct Instruction {
  Op op = Op::kLoadBatch;
  uint32_t block = 0;
  uint32_t index = 0;
  bool input_gradient = false;

  friend bool operator==(const Instruction& a, const Instruction& b) {
    return a.op == b.op && a.block == b.block && a.index == b.index &&
           a.input_gradient == b.input_gradient;
  }
};

// "Forward b1", "LoadBatch 3", "EmitGradient b0 share 2"; for people and golden tests.
std::string ToString(const Instruction& instruction);

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_INSTRUCTION_H_
