#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/plan/pipeline_layout.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/core/instruction.h"
#include "worker/layers/block.h"
#include "worker/layers/loss.h"
#include "worker/layers/segment_progress.h"
#include "worker/runtime/lane.h"

// What a lane asks its backend to compute.
namespace sangam {
namespace {

template <typename Shape>
int64_t Elements(const Shape& shape) {
  uint64_t elements = 1;
  for (const uint64_t dimension : shape) elements *= dimension;
  return static_cast<int64_t>(elements);
}

}  // namespace

absl::StatusOr<ConstMatrix> Lane::InputOf(const Instruction& instruction, const Slot& slot) {
  const uint32_t block = instruction.block;
  const uint32_t first = stages_[instruction.chunk].first;
  const auto rows = static_cast<int64_t>(slot.rows);
  const int64_t columns = Elements(layout(block).input_shape());
  const auto received = [&](uint32_t boundary) {
    return ConstMatrix(slot.activations.at(boundary), rows, columns);
  };
  ConstMatrix input;
  if (block > first) {
    input = slot.outputs[block - 1 - first];
  } else if (block == 0) {
    input = ConstMatrix(slot.inputs, rows, columns);
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
  const uint32_t block = instruction.block;
  const uint32_t place = block - stages_[instruction.chunk].first;
  if (slot->rows > 0) {
    ASSIGN_OR_RETURN(const ConstMatrix input, InputOf(instruction, *slot));
    ASSIGN_OR_RETURN(slot->outputs[place], parts_.job->blocks[block]->Forward(
                                               backend(), slot->context, input, WeightsOf(block),
                                               MemoryOf(instruction).states[place].get()));
  }
  // What this pass has not read, later ones may.
  return AwaitRest();
}

absl::Status Lane::ComputeLoss(const Instruction& instruction, Slot* slot) {
  // Of several micro-batches each has a loss of its own.
  const auto rows = static_cast<int64_t>(RowsOf(instruction.index));
  if (rows == 0) return absl::OkStatus();
  const auto first =
      static_cast<int64_t>(RowsOf(slot->micro_batch, instruction.index - slot->micro_batch));
  const ConstMatrix all = slot->outputs.back();
  const ConstMatrix outputs(all.data + first * all.cols, rows, all.cols);
  float* const gradients = MemoryOf(instruction).output_gradients.back()->data();
  Matrix gradient{gradients + first * all.cols, rows, all.cols};
  const uint32_t* const labels =
      slot->labels + first * static_cast<int64_t>(parts_.job->plan.layout().terms_per_sample());
  ASSIGN_OR_RETURN(std::unique_ptr<PendingSums> sums,
                   parts_.job->loss->Compute(backend(), outputs, labels, &gradient));
  slot->loss_gradient = Matrix{gradients, all.rows, all.cols};
  return losses_.AddLoss(std::move(sums));
}

absl::StatusOr<ConstMatrix> Lane::OutputGradientOf(const Instruction& instruction,
                                                   const Slot& slot) {
  const uint32_t block = instruction.block;
  const Stage& stage = stages_[instruction.chunk];
  const auto rows = static_cast<int64_t>(slot.rows);
  const int64_t columns = Elements(layout(block).output_shape());
  const auto received = [&](uint32_t boundary) {
    return ConstMatrix(slot.gradients.at(boundary), rows, columns);
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

absl::Status Lane::FillGradients(uint32_t block) {
  RETURN_IF_ERROR(GradientsOf(block, Slot()).status());
  for (const ParameterUse& use : gradients_[block].uses) {
    RETURN_IF_ERROR(backend()->Fill(0, gradients_[block].sums[use.tied]));
  }
  return absl::OkStatus();
}

absl::StatusOr<BlockGradients> Lane::GradientsOf(uint32_t block, const Slot& slot) {
  BlockGradient& gradient = gradients_[block];
  if (!gradient.begun) {
    for (const ParameterUse& use : gradient.uses) {
      ASSIGN_OR_RETURN(gradient.sums[use.tied], transfers_->GradientPlace(use.segment, use.use));
    }
  }
  BlockGradients to;
  to.own = gradient.sums[false].data;
  to.tied = gradient.sums[true].data;
  to.accumulate = gradient.begun;
  if (slot.count > 1) to.terms = &slot.terms;
  gradient.begun = true;
  return to;
}

absl::StatusOr<BlockGradients> Lane::LastGradientsOf(const Instruction& instruction,
                                                     const Slot& slot) {
  ASSIGN_OR_RETURN(BlockGradients to, GradientsOf(instruction.block, slot));
  const bool last = next_ != nullptr && next_->op == Op::kEmitGradient &&
                    next_->block == instruction.block && to.own != nullptr && to.tied == nullptr;
  if (!last) return to;
  const ParameterUse& use = gradients_[instruction.block].uses.front();
  ASSIGN_OR_RETURN(told_, transfers_->BeginLast(LabelOf(*next_, use)));
  if (told_ != nullptr) to.progress = &progress_;
  return to;
}

absl::Status Lane::Backward(const Instruction& instruction, Slot* slot) {
  if (slot->rows == 0) return absl::OkStatus();
  const uint32_t block = instruction.block;
  const uint32_t place = block - stages_[instruction.chunk].first;
  const Block& computes = *parts_.job->blocks[block];
  BlockState* const state = MemoryOf(instruction).states[place].get();
  if (instruction.op == Op::kBackwardWeights) {
    ASSIGN_OR_RETURN(const BlockGradients gradients, LastGradientsOf(instruction, *slot));
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
  ASSIGN_OR_RETURN(const BlockGradients gradients, LastGradientsOf(instruction, *slot));
  ASSIGN_OR_RETURN(*input_gradient,
                   computes.Backward(backend(), slot->context, output_gradient, WeightsOf(block),
                                     instruction.input_gradient, gradients, state));
  return absl::OkStatus();
}

absl::Status Lane::Score(const Instruction& instruction, const Slot& slot) {
  ASSIGN_OR_RETURN(std::unique_ptr<PendingSums> sums,
                   parts_.job->loss->Compute(backend(), slot.outputs.back(), slot.labels,
                                             /*gradient=*/nullptr));
  return losses_.AddScore(std::move(sums), instruction.index, slot.rows);
}

}  // namespace sangam
