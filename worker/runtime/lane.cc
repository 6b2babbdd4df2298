#include "worker/runtime/lane.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/core/instruction.h"
#include "worker/core/step_program.h"
#include "worker/core/timeline.h"
#include "worker/layers/block.h"
#include "worker/layers/loss.h"

namespace sangam {
namespace {

const char* NameOf(RoundKind kind) {
  switch (kind) {
    case RoundKind::kTrain:
      return "training";
    case RoundKind::kEvaluate:
      return "evaluation";
    case RoundKind::kFinish:
      return "finish";
  }
  return "?";
}

}  // namespace

Lane::Lane(const RunParts& parts, uint32_t index)
    : parts_(parts),
      index_(index),
      memory_(&parts.job->lanes[index]),
      weights_(parts.job->blocks.size(), nullptr),
      outputs_(parts.job->blocks.size()),
      gradients_(parts.job->blocks.size()) {}

absl::Status Lane::Run() {
  std::optional<Round> round = parts_.timeline.First();
  while (round.has_value()) {
    RETURN_IF_ERROR(RunRound(*round));
    round = parts_.timeline.Next(*round);
  }
  batch_ = Prefetcher::Batch();
  return absl::OkStatus();
}

absl::Status Lane::RunRound(Round round) {
  round_ = round;
  context_.seed = parts_.job->spec.seed();
  context_.step = round.step;
  context_.training = round.kind == RoundKind::kTrain;
  const StepProgram* program = round.kind == RoundKind::kTrain      ? parts_.train
                               : round.kind == RoundKind::kEvaluate ? parts_.evaluate
                                                                    : parts_.finish;
  for (const Instruction& instruction : program->lanes[index_]) {
    if (parts_.latch->tripped()) return absl::CancelledError("the run was ended");
    RETURN_IF_ERROR(Execute(instruction), "%s at step %d, %s", NameOf(round.kind), round.step,
                    ToString(instruction));
  }
  return absl::OkStatus();
}

absl::Status Lane::Execute(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kLoadBatch:
      return LoadBatch(instruction.index);
    case Op::kAwaitWeights:
      return AwaitWeights(instruction.block);
    case Op::kForward:
      return Forward(instruction.block);
    case Op::kLoss:
      return ComputeLoss();
    case Op::kBackward:
      return Backward(instruction.block, instruction.input_gradient);
    case Op::kEmitGradient:
      return EmitGradient(instruction.block, instruction.index);
    case Op::kEndShare:
      return EndShare(instruction.index);
    case Op::kScore:
      return Score(instruction.index);
    case Op::kEndEvaluation:
      parts_.reporter->AddScores(round_.step, scores_);
      scores_.clear();
      return absl::OkStatus();
  }
  return absl::InternalError("unknown instruction");
}

absl::Status Lane::LoadBatch(uint32_t index) {
  // The batch before may still be read by work that the backend has not done yet.
  RETURN_IF_ERROR(backend()->Synchronize());
  batch_ = Prefetcher::Batch();
  ASSIGN_OR_RETURN(batch_, parts_.prefetcher->Take(index_, parts_.stall_limit));
  if (batch_.tag() != index) {
    return absl::InternalError(absl::StrCat("batch ", batch_.tag(), " was prepared"));
  }
  if (context_.training) {
    context_.first_position = parts_.job->cut.MicroBatch(round_.step, index).begin;
    share_samples_ += batch_.rows();
  }
  return absl::OkStatus();
}

absl::Status Lane::AwaitWeights(uint32_t block) {
  ASSIGN_OR_RETURN(weights_[block], parts_.job->store->Await(static_cast<uint32_t>(segment(block)),
                                                             round_.step, parts_.stall_limit));
  return absl::OkStatus();
}

absl::Status Lane::Forward(uint32_t block) {
  if (empty()) return absl::OkStatus();
  const int64_t rows = static_cast<int64_t>(batch_.rows());
  const int64_t columns = static_cast<int64_t>(parts_.job->data.train->sample_elements());
  const ConstMatrix input =
      block == 0 ? ConstMatrix(batch_.inputs(), rows, columns) : outputs_[block - 1];
  ASSIGN_OR_RETURN(outputs_[block],
                   parts_.job->blocks[block]->Forward(backend(), context_, input, weights_[block],
                                                      memory_->states[block].get()));
  return absl::OkStatus();
}

absl::Status Lane::ComputeLoss() {
  if (empty()) return absl::OkStatus();
  const ConstMatrix outputs = outputs_.back();
  Matrix gradient{memory_->output_gradient->data(), outputs.rows, outputs.cols};
  ASSIGN_OR_RETURN(const LossSums sums,
                   parts_.job->loss->Compute(backend(), outputs, batch_.labels(), &gradient));
  share_loss_ += sums.loss;
  gradient_ = gradient;
  return absl::OkStatus();
}

absl::Status Lane::Backward(uint32_t block, bool input_gradient) {
  if (empty()) return absl::OkStatus();
  BlockGradient& gradient = gradients_[block];
  if (segment(block) >= 0 && !gradient.begun) {
    ASSIGN_OR_RETURN(gradient.sum, parts_.job->outbox->Take(static_cast<uint32_t>(segment(block))));
  }
  ASSIGN_OR_RETURN(gradient_,
                   parts_.job->blocks[block]->Backward(
                       backend(), context_, gradient_, weights_[block], gradient.begun,
                       input_gradient, gradient.sum.data(), memory_->states[block].get()));
  gradient.begun = true;
  return absl::OkStatus();
}

absl::Status Lane::EmitGradient(uint32_t block, uint32_t share) {
  BlockGradient& gradient = gradients_[block];
  const uint32_t segment_index = static_cast<uint32_t>(segment(block));
  if (gradient.begun) {
    RETURN_IF_ERROR(backend()->Synchronize());
  } else {
    // No micro-batch of the share has a sample; the servers still wait for its sum.
    ASSIGN_OR_RETURN(gradient.sum, parts_.job->outbox->Take(segment_index));
    std::fill_n(gradient.sum.data(), gradient.sum.size(), 0.0f);
  }
  gradient.begun = false;
  GradientOutbox::Gradient emitted;
  emitted.step = round_.step;
  emitted.segment = segment_index;
  emitted.share = share;
  emitted.sum = {std::exchange(gradient.sum, FloatBuffer()), share_samples_};
  return parts_.job->outbox->Emit(std::move(emitted), parts_.job->store.get(), parts_.link);
}

absl::Status Lane::EndShare(uint32_t share) {
  parts_.reporter->AddShare(round_.step, share, share_loss_, share_samples_);
  share_loss_ = 0;
  share_samples_ = 0;
  return absl::OkStatus();
}

absl::Status Lane::Score(uint32_t chunk) {
  ASSIGN_OR_RETURN(const LossSums sums,
                   parts_.job->loss->Compute(backend(), outputs_.back(), batch_.labels(), nullptr));
  v1::EvaluationChunk score;
  score.set_chunk(chunk);
  score.set_samples(batch_.rows());
  score.set_correct(sums.correct);
  score.set_loss_sum(sums.loss);
  scores_.push_back(std::move(score));
  return absl::OkStatus();
}

}  // namespace sangam
