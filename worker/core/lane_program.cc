#include "worker/core/lane_program.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/plan/pipeline_layout.h"
#include "common/plan/schedule.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "worker/core/instruction.h"

namespace sangam {

// Writes one list.
class LaneProgram::Writer {
 public:
  Writer(const LaneProgram* program, const std::vector<LaneMicroBatch>* micro_batches)
      : program_(*program), micro_batches_(*micro_batches), slots_(program->stages_.size()) {}

  void Forward(const Pass& pass, bool training) {
    Begin(pass);
    const Stage& stage = program_.stages_[pass.chunk];
    slot_ = slots_[pass.chunk].Take(pass.micro_batch);
    const bool last = stage.end == program_.num_blocks_;
    if (stage.first == 0 || last) Add(Op::kLoadBatch);
    for (const Boundary& boundary : stage.inputs) Add(Op::kReceive, 0, boundary.id);
    for (uint32_t b = stage.first; b < stage.end; ++b) {
      if (program_.HasWeights(b) && awaited_.insert(b).second) Add(Op::kAwaitWeights, b);
      Add(Op::kForward, b);
    }
    for (const Boundary& boundary : stage.outputs) Add(Op::kSend, 0, boundary.id);
    if (last && training) {
      for (uint32_t i = 0; i < micro_batch_.count; ++i) {
        list_.push_back({Op::kLoss, 0, micro_batch_.index + i, chunk_, slot_});
        if (!micro_batch_.last_of_share) continue;
        list_.push_back({Op::kEndShare, 0, micro_batch_.share + i, chunk_, slot_});
      }
    } else if (last) {
      Add(Op::kScore);
    }
    if (!training || !program_.WantsGradient(stage.end - 1)) Release(pass);
  }

  void Backward(const Pass& pass) {
    Begin(pass);
    const Stage& stage = program_.stages_[pass.chunk];
    if (!program_.WantsGradient(stage.end - 1)) return;
    slot_ = slots_[pass.chunk].Of(pass.micro_batch);
    for (const Boundary& boundary : stage.outputs) {
      if (program_.WantsGradient(boundary.from_block)) {
        Add(Op::kReceiveGradient, 0, boundary.id);
      }
    }
    const bool split = pass.kind == PassKind::kBackwardInput;
    for (uint32_t b = stage.end; b-- > std::max(stage.first, program_.first_trained_);) {
      const bool part = split && program_.Splits(b);
      Add(part ? Op::kBackwardInput : Op::kBackward, b, 0, b > program_.first_trained_);
      if (!part) Emit(b);
    }
    for (const Boundary& boundary : stage.inputs) {
      if (program_.WantsGradient(boundary.from_block)) Add(Op::kSendGradient, 0, boundary.id);
    }
    if (!split) Release(pass);
  }

  void BackwardWeights(const Pass& pass) {
    Begin(pass);
    const Stage& stage = program_.stages_[pass.chunk];
    if (!program_.WantsGradient(stage.end - 1)) return;
    slot_ = slots_[pass.chunk].Of(pass.micro_batch);
    for (uint32_t b = stage.end; b-- > stage.first;) {
      if (!program_.Splits(b)) continue;
      Add(Op::kBackwardWeights, b);
      Emit(b);
    }
    Release(pass);
  }

  std::vector<Instruction> Take() { return std::move(list_); }

 private:
  // Which slots of one stage are in use.
  class Slots {
   public:
    uint32_t Take(uint32_t micro_batch) {
      uint32_t slot = static_cast<uint32_t>(used_.size());
      if (!free_.empty()) {
        slot = *free_.begin();
        free_.erase(free_.begin());
      }
      SANGAM_CHECK(used_.emplace(micro_batch, slot).second);
      return slot;
    }
    uint32_t Of(uint32_t micro_batch) const { return used_.at(micro_batch); }
    void Release(uint32_t micro_batch) {
      free_.insert(used_.at(micro_batch));
      used_.erase(micro_batch);
    }

   private:
    std::map<uint32_t, uint32_t> used_;  // by micro-batch
    std::set<uint32_t> free_;
  };

  void Begin(const Pass& pass) {
    chunk_ = pass.chunk;
    micro_batch_ = micro_batches_[pass.micro_batch];
  }

  void Add(Op op, uint32_t block = 0, uint32_t boundary = 0, bool input_gradient = false) {
    list_.push_back({op, block, micro_batch_.index, chunk_, slot_, boundary, input_gradient,
                     micro_batch_.count});
  }

  void Emit(uint32_t block) {
    if (micro_batch_.last_of_share && program_.HasWeights(block)) {
      list_.push_back({Op::kEmitGradient, block, micro_batch_.share, chunk_, slot_, 0, false,
                       micro_batch_.count});
    }
  }

  void Release(const Pass& pass) {
    Add(Op::kRelease);
    slots_[pass.chunk].Release(pass.micro_batch);
  }

  const LaneProgram& program_;
  const std::vector<LaneMicroBatch>& micro_batches_;
  std::vector<Slots> slots_;  // by chunk
  std::set<uint32_t> awaited_;
  std::vector<Instruction> list_;
  // Of the pass under way.
  uint32_t chunk_ = 0;
  uint32_t slot_ = 0;
  LaneMicroBatch micro_batch_;
};

LaneProgram::LaneProgram(const v1::Plan* plan, uint32_t worker, const std::vector<bool>* recompute)
    : plan_(plan),
      recompute_(recompute),
      num_blocks_(static_cast<uint32_t>(plan->layout().block_size())),
      first_trained_(num_blocks_) {
  for (uint32_t b = num_blocks_; b-- > 0;) {
    if (HasWeights(b)) first_trained_ = b;
  }
  const std::vector<Boundary> boundaries = BoundariesOf(*plan);
  for (uint32_t chunk = 0; chunk < ChunksOf(*plan); ++chunk) {
    const uint32_t index = StageOf(*plan, worker, chunk);
    const v1::StagePlan& blocks = plan->stage(static_cast<int>(index));
    Stage stage;
    stage.first = blocks.first_block();
    stage.end = blocks.first_block() + blocks.block_count();
    for (const Boundary& boundary : boundaries) {
      if (boundary.to_stage == index) stage.inputs.push_back(boundary);
      if (boundary.from_stage == index) stage.outputs.push_back(boundary);
    }
    stages_.push_back(std::move(stage));
  }
}

bool LaneProgram::HasWeights(uint32_t block) const {
  const v1::BlockLayout& layout = plan_->layout().block(static_cast<int>(block));
  return layout.segment() >= 0 || layout.has_tied_segment();
}

std::vector<Instruction> LaneProgram::Train(
    const std::vector<Pass>& passes, const std::vector<LaneMicroBatch>& micro_batches) const {
  Writer writer(this, &micro_batches);
  for (const Pass& pass : passes) {
    switch (pass.kind) {
      case PassKind::kForward:
        writer.Forward(pass, /*training=*/true);
        break;
      case PassKind::kBackward:
      case PassKind::kBackwardInput:
        writer.Backward(pass);
        break;
      case PassKind::kBackwardWeights:
        writer.BackwardWeights(pass);
        break;
    }
  }
  return writer.Take();
}

std::vector<Instruction> LaneProgram::Evaluate(const std::vector<Pass>& passes,
                                               const std::vector<LaneMicroBatch>& chunks) const {
  Writer writer(this, &chunks);
  for (const Pass& pass : passes) writer.Forward(pass, /*training=*/false);
  std::vector<Instruction> list = writer.Take();
  if (stages_.back().end == num_blocks_) list.push_back({Op::kEndEvaluation});
  return list;
}

std::vector<Instruction> LaneProgram::AwaitAll() const {
  std::vector<Instruction> list;
  for (const Stage& stage : stages_) {
    for (uint32_t b = stage.first; b < stage.end; ++b) {
      if (HasWeights(b)) list.push_back({Op::kAwaitWeights, b});
    }
  }
  return list;
}

std::vector<uint32_t> SlotsOf(const std::vector<Instruction>& list, uint32_t chunks) {
  std::vector<uint32_t> slots(chunks, 0);
  for (const Instruction& instruction : list) {
    if (instruction.op != Op::kForward) continue;
    slots[instruction.chunk] = std::max(slots[instruction.chunk], instruction.slot + 1);
  }
  return slots;
}

}  // namespace sangam
