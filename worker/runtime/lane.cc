#include "worker/runtime/lane.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/metrics/counters.h"
#include "common/plan/batch_cut.h"
#include "common/plan/pipeline_layout.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"
#include "worker/core/instruction.h"
#include "worker/core/step_program.h"
#include "worker/core/timeline.h"
#include "worker/core/traced_steps.h"
#include "worker/data/batch_source.h"

namespace sangam {
namespace {

// What takes less is not told apart from the instruction in whose middle it happens.
constexpr absl::Duration kShortestAside = absl::Microseconds(5);

// Whether all that the instruction does is to ask the backend for operations.
bool OnlyComputes(Op op) {
  return op == Op::kForward || op == Op::kBackward || op == Op::kBackwardInput ||
         op == Op::kBackwardWeights;
}

StepPhase PhaseOf(Op op) {
  switch (op) {
    case Op::kLoadBatch:
      return StepPhase::kData;
    case Op::kReceive:
    case Op::kReceiveGradient:
      return StepPhase::kWait;
    case Op::kAwaitWeights:
      return StepPhase::kPull;
    case Op::kForward:
      return StepPhase::kForward;
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeights:
      return StepPhase::kBackward;
    case Op::kSend:
    case Op::kSendGradient:
    case Op::kEmitGradient:
      return StepPhase::kPush;
    case Op::kLoss:
    case Op::kEndShare:
    case Op::kRelease:
    case Op::kScore:
    case Op::kEndEvaluation:
      return StepPhase::kLoss;
  }
  return StepPhase::kLoss;
}

// The sum over a node of the tree of shares, each of which is one micro-batch of rows_of(share)
// rows.
template <typename RowsOf>
void AddTerms(ShareSpan node, const RowsOf& rows_of, std::vector<RowTerm>* terms) {
  if (node.size() == 1) {
    terms->push_back({rows_of(node.begin), 0});
    return;
  }
  const uint32_t middle = SplitPoint(node);
  AddTerms({node.begin, middle}, rows_of, terms);
  AddTerms({middle, node.end}, rows_of, terms);
  ++terms->back().additions;
}

}  // namespace

Lane::Lane(const RunParts& parts, uint32_t index)
    : parts_(parts),
      index_(index),
      memory_(&parts.job->lanes[index]),
      transfers_(LaneTransfers::Create(parts, index)),
      weights_(static_cast<size_t>(parts.job->plan.layout().segment_size()), nullptr),
      gradients_(parts.job->blocks.size()),
      losses_(parts.reporter),
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
    parts_.gate->Pass(round->step);
    RETURN_IF_ERROR(RunRound(*round));
    round = parts_.timeline.Next(*round);
  }
  RETURN_IF_ERROR(transfers_->Finish());
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
    const std::vector<Instruction>& list = program->lanes[index_];
    for (size_t i = 0; i < list.size(); ++i) {
      const Instruction& listed = list[i];
      next_ = i + 1 < list.size() ? &list[i + 1] : nullptr;
      if (parts_.latch->tripped()) return absl::CancelledError("the run was ended");
      const std::optional<Instruction> instruction = InWindow(*program, listed, window);
      if (!instruction.has_value()) continue;
      const absl::Status status = Timed(*instruction, traced);
      if (!status.ok()) return WithContext(status, ToString(Doing(*instruction)));
    }
  }
  // Those of a pass that has fallen out of the last window.
  RETURN_IF_ERROR(AwaitRest());
  // What a device says of its work it says here at the latest; and no work of one round is under
  // way in another one, which DeviceWeights relies on. Weights that are awaited next come later
  // than this in any case.
  RETURN_IF_ERROR(backend()->EndSequence(), "end of step %d", round.step);
  RETURN_IF_ERROR(losses_.Settle(), "losses of step %d", round.step);
  RETURN_IF_ERROR(backend()->Synchronize(), "end of step %d", round.step);
  if (traced) parts_.reporter->AddTrace(round.step, record_.TakeEvents());
  return absl::OkStatus();
}

bool Lane::IsTimed() const {
  if (round_.kind != RoundKind::kTrain) return false;
  return transfers_->at_once() || round_.step % 64 == 5;
}

absl::Status Lane::Timed(const Instruction& instruction, bool traced) {
  timed_ = IsTimed();
  traced_ = traced;
  if (!timed_ && !traced_) return Execute(instruction);
  noted_ = Clock::Real().Steady();
  own_time_ = absl::ZeroDuration();
  RETURN_IF_ERROR(Execute(instruction));
  if (timed_) RETURN_IF_ERROR(backend()->Synchronize());
  own_time_ += NoteTime(instruction, Clock::Real().Steady());
  if (timed_) {
    record_.AddTime(instruction, RowsOf(instruction.index, instruction.count),
                    absl::ToDoubleSeconds(own_time_));
  }
  return absl::OkStatus();
}

absl::Status Lane::Aside(const Instruction& instruction, absl::FunctionRef<absl::Status()> work) {
  if (!timed_ && !traced_) return work();
  const absl::Duration begin = Clock::Real().Steady();
  RETURN_IF_ERROR(work());
  const absl::Duration end = Clock::Real().Steady();
  if (end - begin < kShortestAside) return absl::OkStatus();
  own_time_ += NoteTime(current_, begin);
  (void)NoteTime(instruction, end);
  return absl::OkStatus();
}

absl::Duration Lane::NoteTime(const Instruction& instruction, absl::Duration until) {
  const absl::Duration took = until - std::exchange(noted_, until);
  const int64_t took_us = absl::ToInt64Microseconds(took);
  if (timed_) {
    ProcessCounters().AddPhase(PhaseOf(instruction.op), static_cast<uint64_t>(took_us));
  }
  if (traced_) {
    const Clock& clock = Clock::Real();
    const absl::Time end = clock.Wall() - (clock.Steady() - until);
    const int64_t begin_us = absl::ToUnixMicros(end) - took_us;
    record_.AddEvent(instruction, RowsOf(instruction.index, instruction.count),
                     static_cast<uint64_t>(std::max<int64_t>(begin_us, 0)),
                     static_cast<uint64_t>(took_us));
  }
  return took;
}

absl::Status Lane::Execute(const Instruction& instruction) {
  current_ = instruction;
  if (!parts_.job->graphs || IsTimed()) {
    // The backend does one thing after the other.
  } else if (OnlyComputes(instruction.op)) {
    backend()->BeginSequence();
  } else {
    // Others wait for weights, data or buffers, or follow what was asked for with events.
    RETURN_IF_ERROR(backend()->EndSequence());
  }
  switch (instruction.op) {
    case Op::kLoadBatch:
      return LoadBatch(instruction, SlotOf(instruction));
    case Op::kReceive:
      return Receive(instruction, FlowDirection::kForward, SlotOf(instruction));
    case Op::kAwaitWeights:
      return AwaitWeights(instruction);
    case Op::kForward:
      return Forward(instruction, SlotOf(instruction));
    case Op::kSend:
      return Send(instruction, FlowDirection::kForward, *SlotOf(instruction));
    case Op::kLoss:
      return ComputeLoss(instruction, SlotOf(instruction));
    case Op::kEndShare:
      losses_.EndShare(round_.step, instruction.index, SamplesOfShare(instruction.index));
      return absl::OkStatus();
    case Op::kReceiveGradient:
      return Receive(instruction, FlowDirection::kBackward, SlotOf(instruction));
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeights:
      return Backward(instruction, SlotOf(instruction));
    case Op::kSendGradient:
      return Send(instruction, FlowDirection::kBackward, *SlotOf(instruction));
    case Op::kEmitGradient:
      return EmitGradient(instruction);
    case Op::kRelease:
      return Release(instruction, SlotOf(instruction));
    case Op::kScore:
      return Score(instruction, *SlotOf(instruction));
    case Op::kEndEvaluation:
      return losses_.EndEvaluation(round_.step);
  }
  return absl::InternalError("unknown instruction");
}

uint64_t Lane::RowsOf(uint32_t index) const {
  if (round_.kind == RoundKind::kEvaluate) {
    return EvaluationChunk(parts_.test_samples, parts_.cut.MaxMicroBatchSize(), index).size();
  }
  return index < parts_.cut.micro_batches ? parts_.cut.MicroBatch(round_.step, index).size() : 0;
}

uint64_t Lane::RowsOf(uint32_t index, uint32_t count) const {
  uint64_t rows = 0;
  for (uint32_t i = 0; i < count; ++i) rows += RowsOf(index + i);
  return rows;
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
  slot->terms.clear();
  slot->micro_batch = instruction.index;
  slot->count = instruction.count;
  slot->rows = RowsOf(instruction.index, instruction.count);
  slot->context.seed = parts_.job->spec.seed();
  slot->context.step = round_.step;
  slot->context.training = training;
  slot->context.first_position =
      training ? parts_.cut.MicroBatch(round_.step, instruction.index).begin : 0;
  if (slot->count > 1) {
    AddTerms(
        {instruction.index, instruction.index + instruction.count},
        [this](uint32_t micro_batch) { return static_cast<int64_t>(RowsOf(micro_batch)); },
        &slot->terms);
  }
  return slot;
}

SlotMemory& Lane::MemoryOf(const Instruction& instruction) {
  return memory_->stages[instruction.chunk].slots[instruction.slot];
}

absl::StatusOr<Batch> Lane::TakeBatch(uint32_t index) {
  ASSIGN_OR_RETURN(Batch batch, parts_.batches->Take(index_, parts_.stall_limit));
  const BatchId expected{round_.kind == RoundKind::kEvaluate, round_.step, index};
  const uint64_t rows = RowsOf(index);
  if (!(batch.id == expected) || batch.rows != rows) {
    const auto describe = [](const BatchId& id, uint64_t samples) {
      return absl::StrCat(id.evaluation ? "chunk " : "micro-batch ", id.index, " of the ",
                          id.evaluation ? "evaluation at step " : "step ", id.step, " with ",
                          samples, " samples");
    };
    return absl::InternalError(absl::StrCat("prepared batch: found ",
                                            describe(batch.id, batch.rows), ", expected ",
                                            describe(expected, rows)));
  }
  return batch;
}

absl::Status Lane::LoadBatch(const Instruction& instruction, Slot* slot) {
  if (instruction.count > 1) return LoadGroup(instruction, slot);
  ASSIGN_OR_RETURN(Batch batch, TakeBatch(instruction.index));
  slot->labels = batch.labels;
  ASSIGN_OR_RETURN(slot->inputs,
                   transfers_->Inputs({instruction.chunk, instruction.slot}, std::move(batch)));
  return absl::OkStatus();
}

absl::Status Lane::LoadGroup(const Instruction& instruction, Slot* slot) {
  int64_t columns = 1;
  for (const uint64_t dimension : layout(0).input_shape()) {
    columns *= static_cast<int64_t>(dimension);
  }
  const auto labels_per_sample = static_cast<size_t>(parts_.job->plan.layout().terms_per_sample());
  float* inputs = MemoryOf(instruction).group_inputs->data();
  slot->inputs = inputs;
  slot->group_labels.clear();
  for (uint32_t i = 0; i < instruction.count; ++i) {
    ASSIGN_OR_RETURN(const Batch batch, TakeBatch(instruction.index + i));
    const auto rows = static_cast<int64_t>(batch.rows);
    RETURN_IF_ERROR(
        backend()->Copy(ConstMatrix(batch.inputs, rows, columns), Matrix{inputs, rows, columns}));
    inputs += rows * columns;
    slot->group_labels.insert(slot->group_labels.end(), batch.labels,
                              batch.labels + batch.rows * labels_per_sample);
    // The batch's memory is filled anew from here on.
    RETURN_IF_ERROR(backend()->Synchronize());
  }
  slot->labels = slot->group_labels.data();
  return absl::OkStatus();
}

absl::Status Lane::AwaitWeights(const Instruction& instruction) {
  const auto await = [this](uint32_t segment) -> absl::Status {
    ASSIGN_OR_RETURN(const float* const host,
                     parts_.job->store->Await(segment, round_.step, parts_.stall_limit));
    ASSIGN_OR_RETURN(weights_[segment], transfers_->Weights(segment, round_.step, host));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(AwaitRest());
  const v1::BlockLayout& own = layout(instruction.block);
  if (own.segment() >= 0) {
    const auto segment = static_cast<uint32_t>(own.segment());
    // The pass that comes next can begin with what is there.
    const bool forward =
        next_ != nullptr && next_->op == Op::kForward && next_->block == instruction.block;
    if (forward && transfers_->at_once()) {
      arriving_ = instruction;
      weights_[segment] = parts_.job->store->data(segment);
    } else {
      RETURN_IF_ERROR(await(segment));
    }
  }
  if (own.has_tied_segment()) RETURN_IF_ERROR(await(own.tied_segment()));
  return absl::OkStatus();
}

absl::Status Lane::AwaitPart(uint64_t first, uint64_t count) {
  const auto segment = static_cast<uint32_t>(layout(arriving_->block).segment());
  return Aside(*arriving_, [&] {
    return parts_.job->store->AwaitPart(segment, round_.step, first, count, parts_.stall_limit);
  });
}

absl::Status Lane::AwaitRest() {
  if (!arriving_.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(AwaitPart(0, kAllElements));
  arriving_.reset();
  return absl::OkStatus();
}

BlockWeights Lane::WeightsOf(uint32_t block) const {
  BlockWeights weights;
  const v1::BlockLayout& own = layout(block);
  if (own.segment() >= 0) weights.own = weights_[static_cast<size_t>(own.segment())];
  if (own.has_tied_segment()) weights.tied = weights_[own.tied_segment()];
  if (arriving_.has_value() && arriving_->block == block) weights.arrival = &arrival_;
  return weights;
}

absl::Status Lane::Receive(const Instruction& instruction, FlowDirection direction, Slot* slot) {
  if (slot->rows == 0) return absl::OkStatus();
  const FlowTag tag{round_.step, round_.kind == RoundKind::kEvaluate, instruction.index,
                    instruction.boundary, direction};
  const FlowShape shape{slot->rows, boundaries_[instruction.boundary].columns};
  auto& to = direction == FlowDirection::kForward ? slot->activations : slot->gradients;
  ASSIGN_OR_RETURN(FloatBuffer tensor,
                   parts_.job->pipeline->Receive(index_, tag, shape, parts_.stall_limit));
  ASSIGN_OR_RETURN(
      to[instruction.boundary],
      transfers_->Arrival({instruction.chunk, instruction.slot}, tag, shape, std::move(tensor)));
  return absl::OkStatus();
}

absl::Status Lane::Send(const Instruction& instruction, FlowDirection direction, const Slot& slot) {
  if (slot.rows == 0) return absl::OkStatus();
  const Boundary& boundary = boundaries_[instruction.boundary];
  const uint32_t first = stages_[instruction.chunk].first;
  const ConstMatrix tensor = direction == FlowDirection::kForward
                                 ? slot.outputs[boundary.from_block - first]
                                 : slot.input_gradients[boundary.to_block - first];
  ASSIGN_OR_RETURN(FloatBuffer buffer, parts_.job->pipeline->Reserve(index_, boundary.id, direction,
                                                                     parts_.stall_limit));
  const FlowTag tag{round_.step, round_.kind == RoundKind::kEvaluate, instruction.index,
                    boundary.id, direction};
  return transfers_->Send(tag, tensor, std::move(buffer), Doing(instruction));
}

absl::Status Lane::EmitGradient(const Instruction& instruction) {
  BlockGradient& gradient = gradients_[instruction.block];
  if (!gradient.begun) {
    // No micro-batch of the share has a sample; the servers still wait for its sum.
    RETURN_IF_ERROR(FillGradients(instruction.block));
  }
  gradient.begun = false;
  for (const ParameterUse& use : gradient.uses) {
    RETURN_IF_ERROR(transfers_->Emit(LabelOf(instruction, use), Doing(instruction)));
  }
  return absl::OkStatus();
}

LaneTransfers::GradientLabel Lane::LabelOf(const Instruction& emit, const ParameterUse& use) const {
  LaneTransfers::GradientLabel label;
  label.step = round_.step;
  label.segment = use.segment;
  label.use = use.use;
  label.share = emit.index;
  label.shares = emit.count;
  for (uint32_t i = 0; i < label.shares; ++i) label.samples += SamplesOfShare(label.share + i);
  label.samples *= parts_.job->plan.layout().terms_per_sample();
  return label;
}

absl::Status Lane::Release(const Instruction& instruction, Slot* slot) {
  slot->open = false;
  slot->inputs = nullptr;
  slot->labels = nullptr;
  slot->activations.clear();
  slot->gradients.clear();
  return transfers_->Release({instruction.chunk, instruction.slot});
}

}  // namespace sangam
