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
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/plan/batch_cut.h"
#include "common/plan/pipeline_layout.h"
#include "common/tensor/buffer.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/core/instruction.h"
#include "worker/core/step_program.h"
#include "worker/core/timeline.h"
#include "worker/core/traced_steps.h"
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

template <typename Shape>
int64_t Elements(const Shape& shape) {
  uint64_t elements = 1;
  for (const uint64_t dimension : shape) elements *= dimension;
  return static_cast<int64_t>(elements);
}

}  // namespace

Lane::Lane(const RunParts& parts, uint32_t index)
    : parts_(parts),
      index_(index),
      memory_(&parts.job->lanes[index]),
      weights_(static_cast<size_t>(parts.job->plan.layout().segment_size()), nullptr),
      gradients_(parts.job->blocks.size()),
      record_(index, static_cast<uint32_t>(parts.job->blocks.size())) {
  const v1::Plan& plan = parts.job->plan;
  for (const Boundary& boundary : BoundariesOf(plan)) boundaries_[boundary.id] = boundary;
  for (const ParameterUse& use : UsesOf(plan, parts.job->worker)) {
    gradients_[use.block].uses.push_back(use);
  }
  for (uint32_t chunk = 0; chunk < memory_->stages.size(); ++chunk) {
    const v1::StagePlan& blocks =
        plan.stage(static_cast<int>(StageOf(plan, parts.job->worker, chunk)));
    Stage stage;
    stage.first = blocks.first_block();
    stage.end = blocks.first_block() + blocks.block_count();
    for (size_t s = 0; s < memory_->stages[chunk].slots.size(); ++s) {
      Slot slot;
      slot.outputs.resize(blocks.block_count());
      slot.input_gradients.resize(blocks.block_count());
      stage.slots.push_back(std::move(slot));
    }
    stages_.push_back(std::move(stage));
  }
}

absl::Status Lane::Run() {
  std::optional<Round> round = parts_.timeline.First();
  while (round.has_value()) {
    RETURN_IF_ERROR(RunRound(*round));
    round = parts_.timeline.Next(*round);
  }
  parts_.reporter->AddTimes(record_.BlockTimes());
  return absl::OkStatus();
}

absl::Status Lane::RunRound(Round round) {
  round_ = round;
  const bool training = round.kind == RoundKind::kTrain;
  const bool traced = training && IsTraced(round.step, parts_.timeline.steps_total);
  const StepProgram* program = training                             ? parts_.train
                               : round.kind == RoundKind::kEvaluate ? parts_.evaluate
                                                                    : parts_.finish;
  for (uint32_t window = 0; window < program->windows; ++window) {
    for (const Instruction& listed : program->lanes[index_]) {
      if (parts_.latch->tripped()) return absl::CancelledError("the run was ended");
      const std::optional<Instruction> instruction = InWindow(*program, listed, window);
      if (!instruction.has_value()) continue;
      RETURN_IF_ERROR(Timed(*instruction, traced), "%s at step %d, %s", NameOf(round.kind),
                      round.step, ToString(*instruction));
    }
  }
  if (traced) parts_.reporter->AddTrace(round.step, record_.TakeEvents());
  return absl::OkStatus();
}

absl::Status Lane::Timed(const Instruction& instruction, bool traced) {
  if (round_.kind != RoundKind::kTrain) return Execute(instruction);
  const Clock& clock = Clock::Real();
  const absl::Duration begin = clock.Steady();
  RETURN_IF_ERROR(Execute(instruction));
  const absl::Duration took = clock.Steady() - begin;
  const uint64_t rows = RowsOf(instruction.index);
  record_.AddTime(instruction, rows, absl::ToDoubleSeconds(took));
  if (!traced) return absl::OkStatus();
  const int64_t took_us = absl::ToInt64Microseconds(took);
  const int64_t now_us = absl::ToUnixMicros(clock.Wall());
  record_.AddEvent(instruction, rows, static_cast<uint64_t>(std::max<int64_t>(now_us - took_us, 0)),
                   static_cast<uint64_t>(took_us));
  return absl::OkStatus();
}

absl::Status Lane::Execute(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kLoadBatch:
      return LoadBatch(instruction, SlotOf(instruction));
    case Op::kReceive:
      return Receive(instruction, FlowDirection::kForward, SlotOf(instruction));
    case Op::kAwaitWeights:
      return AwaitWeights(instruction.block);
    case Op::kForward:
      return Forward(instruction, SlotOf(instruction));
    case Op::kSend:
      return Send(instruction, FlowDirection::kForward, *SlotOf(instruction));
    case Op::kLoss:
      return ComputeLoss(instruction, SlotOf(instruction));
    case Op::kEndShare:
      return EndShare(instruction.index);
    case Op::kReceiveGradient:
      return Receive(instruction, FlowDirection::kBackward, SlotOf(instruction));
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeights:
      return Backward(instruction, SlotOf(instruction));
    case Op::kSendGradient:
      return Send(instruction, FlowDirection::kBackward, *SlotOf(instruction));
    case Op::kEmitGradient:
      return EmitGradient(instruction.block, instruction.index);
    case Op::kRelease:
      return Release(SlotOf(instruction));
    case Op::kScore:
      return Score(instruction, *SlotOf(instruction));
    case Op::kEndEvaluation:
      parts_.reporter->AddScores(round_.step, scores_);
      scores_.clear();
      return absl::OkStatus();
  }
  return absl::InternalError("unknown instruction");
}

uint64_t Lane::RowsOf(uint32_t index) const {
  if (round_.kind == RoundKind::kEvaluate) {
    return EvaluationChunk(parts_.test_samples, parts_.cut.MaxMicroBatchSize(), index).size();
  }
  return index < parts_.cut.micro_batches ? parts_.cut.MicroBatch(round_.step, index).size() : 0;
}

uint64_t Lane::SamplesOfShare(uint32_t share) const {
  const IndexRange range = parts_.cut.ShareMicroBatches(share);
  uint64_t samples = 0;
  for (uint64_t m = range.begin; m < range.end; ++m) samples += RowsOf(static_cast<uint32_t>(m));
  return samples;
}

Lane::Slot* Lane::SlotOf(const Instruction& instruction) {
  Slot* slot = &stages_[instruction.chunk].slots[instruction.slot];
  if (slot->open) return slot;
  const bool training = round_.kind == RoundKind::kTrain;
  slot->open = true;
  slot->micro_batch = instruction.index;
  slot->rows = RowsOf(instruction.index);
  slot->context.seed = parts_.job->spec.seed();
  slot->context.step = round_.step;
  slot->context.training = training;
  slot->context.first_position =
      training ? parts_.cut.MicroBatch(round_.step, instruction.index).begin : 0;
  return slot;
}

SlotMemory& Lane::MemoryOf(const Instruction& instruction) {
  return memory_->stages[instruction.chunk].slots[instruction.slot];
}

absl::Status Lane::LoadBatch(const Instruction& instruction, Slot* slot) {
  ASSIGN_OR_RETURN(slot->batch, parts_.batches->Take(index_, parts_.stall_limit));
  const BatchId expected{round_.kind == RoundKind::kEvaluate, round_.step, instruction.index};
  if (!(slot->batch.id == expected) || slot->batch.rows != slot->rows) {
    const auto describe = [](const BatchId& id, uint64_t samples) {
      return absl::StrCat(id.evaluation ? "chunk " : "micro-batch ", id.index, " of the ",
                          id.evaluation ? "evaluation at step " : "step ", id.step, " with ",
                          samples, " samples");
    };
    return absl::InternalError(absl::StrCat("prepared batch: found ",
                                            describe(slot->batch.id, slot->batch.rows),
                                            ", expected ", describe(expected, slot->rows)));
  }
  return absl::OkStatus();
}

absl::Status Lane::AwaitWeights(uint32_t block) {
  const auto await = [this](uint32_t segment) -> absl::Status {
    ASSIGN_OR_RETURN(weights_[segment],
                     parts_.job->store->Await(segment, round_.step, parts_.stall_limit));
    return absl::OkStatus();
  };
  const v1::BlockLayout& own = layout(block);
  if (own.segment() >= 0) RETURN_IF_ERROR(await(static_cast<uint32_t>(own.segment())));
  if (own.has_tied_segment()) RETURN_IF_ERROR(await(own.tied_segment()));
  return absl::OkStatus();
}

BlockWeights Lane::WeightsOf(uint32_t block) const {
  BlockWeights weights;
  const v1::BlockLayout& own = layout(block);
  if (own.segment() >= 0) weights.own = weights_[static_cast<size_t>(own.segment())];
  if (own.has_tied_segment()) weights.tied = weights_[own.tied_segment()];
  return weights;
}

absl::Status Lane::Receive(const Instruction& instruction, FlowDirection direction, Slot* slot) {
  if (slot->rows == 0) return absl::OkStatus();
  const FlowTag tag{round_.step, round_.kind == RoundKind::kEvaluate, instruction.index,
                    instruction.boundary, direction};
  const FlowShape shape{slot->rows, boundaries_[instruction.boundary].columns};
  auto& to = direction == FlowDirection::kForward ? slot->activations : slot->gradients;
  ASSIGN_OR_RETURN(to[instruction.boundary],
                   parts_.job->pipeline->Receive(index_, tag, shape, parts_.stall_limit));
  return absl::OkStatus();
}

absl::Status Lane::Send(const Instruction& instruction, FlowDirection direction, const Slot& slot) {
  if (slot.rows == 0) return absl::OkStatus();
  const Boundary& boundary = boundaries_[instruction.boundary];
  const uint32_t first = stages_[instruction.chunk].first;
  const ConstMatrix tensor = direction == FlowDirection::kForward
                                 ? slot.outputs[boundary.from_block - first]
                                 : slot.input_gradients[boundary.to_block - first];
  PipelineLink* const link = parts_.job->pipeline.get();
  ASSIGN_OR_RETURN(FloatBuffer buffer,
                   link->Reserve(index_, boundary.id, direction, parts_.stall_limit));
  // Copied: the slot's memory is used again before the neighbour has taken the tensor.
  RETURN_IF_ERROR(backend()->Download(tensor, buffer.data()));
  RETURN_IF_ERROR(backend()->Synchronize());
  const FlowTag tag{round_.step, round_.kind == RoundKind::kEvaluate, instruction.index,
                    boundary.id, direction};
  return link->Send(index_, tag, {slot.rows, boundary.columns}, std::move(buffer));
}

absl::StatusOr<ConstMatrix> Lane::InputOf(const Instruction& instruction, const Slot& slot) {
  const uint32_t block = instruction.block;
  const uint32_t first = stages_[instruction.chunk].first;
  const auto rows = static_cast<int64_t>(slot.rows);
  const int64_t columns = Elements(layout(block).input_shape());
  const auto received = [&](uint32_t boundary) {
    return ConstMatrix(slot.activations.at(boundary).data(), rows, columns);
  };
  ConstMatrix input;
  if (block > first) {
    input = slot.outputs[block - 1 - first];
  } else if (block == 0) {
    input = ConstMatrix(slot.batch.inputs, rows, columns);
  } else {
    input = received(block - 1);
  }
  if (!layout(block).has_skip_from()) return input;
  const uint32_t from = layout(block).skip_from();
  const ConstMatrix skipped =
      from >= first ? slot.outputs[from - first] : received(num_blocks() + block);
  const Matrix sum{MemoryOf(instruction).input_sums[block - first]->data(), rows, columns};
  RETURN_IF_ERROR(backend()->Add(input, skipped, sum));
  return ConstMatrix(sum);
}

absl::Status Lane::Forward(const Instruction& instruction, Slot* slot) {
  if (slot->rows == 0) return absl::OkStatus();
  const uint32_t block = instruction.block;
  const uint32_t place = block - stages_[instruction.chunk].first;
  ASSIGN_OR_RETURN(const ConstMatrix input, InputOf(instruction, *slot));
  ASSIGN_OR_RETURN(slot->outputs[place], parts_.job->blocks[block]->Forward(
                                             backend(), slot->context, input, WeightsOf(block),
                                             MemoryOf(instruction).states[place].get()));
  return absl::OkStatus();
}

absl::Status Lane::ComputeLoss(const Instruction& instruction, Slot* slot) {
  if (slot->rows == 0) return absl::OkStatus();
  const ConstMatrix outputs = slot->outputs.back();
  Matrix gradient{MemoryOf(instruction).output_gradients.back()->data(), outputs.rows,
                  outputs.cols};
  ASSIGN_OR_RETURN(const LossSums sums,
                   parts_.job->loss->Compute(backend(), outputs, slot->batch.labels, &gradient));
  share_loss_ += sums.loss;
  slot->loss_gradient = gradient;
  return absl::OkStatus();
}

absl::StatusOr<ConstMatrix> Lane::OutputGradientOf(const Instruction& instruction,
                                                   const Slot& slot) {
  const uint32_t block = instruction.block;
  const Stage& stage = stages_[instruction.chunk];
  const auto rows = static_cast<int64_t>(slot.rows);
  const int64_t columns = Elements(layout(block).output_shape());
  const auto received = [&](uint32_t boundary) {
    return ConstMatrix(slot.gradients.at(boundary).data(), rows, columns);
  };
  ConstMatrix gradient;
  if (block + 1 == num_blocks()) {
    gradient = slot.loss_gradient;
  } else if (block + 1 < stage.end) {
    gradient = slot.input_gradients[block + 1 - stage.first];
  } else {
    gradient = received(block);
  }
  BackendMemory* const kept = MemoryOf(instruction).output_gradients[block - stage.first].get();
  if (kept == nullptr || block + 1 == num_blocks()) return gradient;
  const Matrix sum{kept->data(), rows, columns};
  bool summed = false;
  // In the order of the blocks that read the output, wherever they are.
  for (uint32_t to = block + 2; to < num_blocks(); ++to) {
    if (!layout(to).has_skip_from() || layout(to).skip_from() != block) continue;
    const ConstMatrix skipped =
        to < stage.end ? slot.input_gradients[to - stage.first] : received(num_blocks() + to);
    RETURN_IF_ERROR(backend()->Add(summed ? ConstMatrix(sum) : gradient, skipped, sum));
    summed = true;
  }
  // Alone it is only kept from being overwritten.
  if (!summed) RETURN_IF_ERROR(backend()->Copy(gradient, sum));
  return ConstMatrix(sum);
}

absl::StatusOr<BlockGradients> Lane::GradientsOf(uint32_t block) {
  BlockGradient& gradient = gradients_[block];
  if (!gradient.begun) {
    for (const ParameterUse& use : gradient.uses) {
      ASSIGN_OR_RETURN(gradient.sums[use.tied], parts_.job->outbox->Take(use.segment, use.use));
    }
  }
  BlockGradients to;
  to.own = gradient.sums[false].data();
  to.tied = gradient.sums[true].data();
  to.accumulate = gradient.begun;
  gradient.begun = true;
  return to;
}

absl::Status Lane::Backward(const Instruction& instruction, Slot* slot) {
  if (slot->rows == 0) return absl::OkStatus();
  const uint32_t block = instruction.block;
  const uint32_t place = block - stages_[instruction.chunk].first;
  const Block& computes = *parts_.job->blocks[block];
  BlockState* const state = MemoryOf(instruction).states[place].get();
  if (instruction.op == Op::kBackwardWeights) {
    ASSIGN_OR_RETURN(const BlockGradients gradients, GradientsOf(block));
    return computes.BackwardWeights(backend(), slot->context, WeightsOf(block), gradients, state);
  }
  ASSIGN_OR_RETURN(const ConstMatrix output_gradient, OutputGradientOf(instruction, *slot));
  ConstMatrix* const input_gradient = &slot->input_gradients[place];
  if (instruction.op == Op::kBackwardInput) {
    ASSIGN_OR_RETURN(*input_gradient,
                     computes.BackwardInput(backend(), slot->context, output_gradient,
                                            WeightsOf(block), instruction.input_gradient, state));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const BlockGradients gradients, GradientsOf(block));
  ASSIGN_OR_RETURN(*input_gradient,
                   computes.Backward(backend(), slot->context, output_gradient, WeightsOf(block),
                                     instruction.input_gradient, gradients, state));
  return absl::OkStatus();
}

absl::Status Lane::EmitGradient(uint32_t block, uint32_t share) {
  BlockGradient& gradient = gradients_[block];
  if (gradient.begun) {
    RETURN_IF_ERROR(backend()->Synchronize());
  } else {
    // No micro-batch of the share has a sample; the servers still wait for its sum.
    RETURN_IF_ERROR(GradientsOf(block).status());
    for (const ParameterUse& use : gradient.uses) {
      FloatBuffer& sum = gradient.sums[use.tied];
      std::fill_n(sum.data(), sum.size(), 0.0f);
    }
  }
  gradient.begun = false;
  const uint64_t terms = SamplesOfShare(share) * parts_.job->plan.layout().terms_per_sample();
  for (const ParameterUse& use : gradient.uses) {
    GradientOutbox::Gradient emitted;
    emitted.step = round_.step;
    emitted.segment = use.segment;
    emitted.use = use.use;
    emitted.share = share;
    emitted.sum = {std::exchange(gradient.sums[use.tied], FloatBuffer()), terms};
    RETURN_IF_ERROR(
        parts_.job->outbox->Emit(std::move(emitted), parts_.job->store.get(), parts_.link));
  }
  return absl::OkStatus();
}

absl::Status Lane::EndShare(uint32_t share) {
  parts_.reporter->AddShare(round_.step, share, share_loss_, SamplesOfShare(share));
  share_loss_ = 0;
  return absl::OkStatus();
}

absl::Status Lane::Release(Slot* slot) {
  // Work that the backend has not done yet may still read what is let go.
  RETURN_IF_ERROR(backend()->Synchronize());
  slot->open = false;
  slot->batch = Batch();
  slot->activations.clear();
  slot->gradients.clear();
  return absl::OkStatus();
}

absl::Status Lane::Score(const Instruction& instruction, const Slot& slot) {
  ASSIGN_OR_RETURN(const LossSums sums,
                   parts_.job->loss->Compute(backend(), slot.outputs.back(), slot.batch.labels,
                                             /*gradient=*/nullptr));
  v1::EvaluationChunk score;
  score.set_chunk(instruction.index);
  score.set_samples(slot.rows);
  score.set_correct(sums.correct);
  score.set_loss_sum(sums.loss);
  scores_.push_back(std::move(score));
  return absl::OkStatus();
}

}  // namespace sangam
