#ifndef SANGAM_WORKER_RUNTIME_LANE_H_
#define SANGAM_WORKER_RUNTIME_LANE_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/plan/pipeline_layout.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"
#include "worker/core/activity_record.h"
#include "worker/core/instruction.h"
#include "worker/core/timeline.h"
#include "worker/data/batch_source.h"
#include "worker/layers/block.h"
#include "worker/layers/segment_progress.h"
#include "worker/runtime/lane_memory.h"
#include "worker/runtime/lane_transfers.h"
#include "worker/runtime/pending_losses.h"
#include "worker/runtime/run_parts.h"

namespace sangam {

// Follows the programs of one lane through all rounds: the one switch over instructions. Belongs to
// one thread.
class Lane {
 public:
  Lane(const RunParts& parts, uint32_t index);

  // Goes through the whole timeline.
  // Errors: the first instruction's that failed, with round and instruction in front; Cancelled
  //         when the latch was tripped
  absl::Status Run();

 private:
  // A micro-batch in flight of one stage.
  struct Slot {
    bool open = false;
    uint32_t micro_batch = 0;
    uint32_t count = 1;  // micro-batches from that one on
    uint64_t rows = 0;   // of all
    // How gradients are summed over the rows of several.
    std::vector<RowTerm> terms;
    std::vector<uint32_t> group_labels;  // of several, one after the other
    PassContext context;
    const float* inputs = nullptr;             // of the batch
    const uint32_t* labels = nullptr;          // in the host's memory
    std::vector<ConstMatrix> outputs;          // by block of the stage
    std::vector<ConstMatrix> input_gradients;  // the same
    ConstMatrix loss_gradient;
    // What came from other stages, by boundary.
    std::map<uint32_t, const float*> activations;
    std::map<uint32_t, const float*> gradients;
  };
  // One of the worker's stages.
  struct Stage {
    uint32_t first = 0;  // blocks [first, end)
    uint32_t end = 0;
    std::vector<Slot> slots;
  };
  // One block's gradient of the share under way.
  struct BlockGradient {
    std::vector<ParameterUse> uses;
    std::array<Matrix, 2> sums;  // of the block's own segment, of the tied one
    bool begun = false;          // a micro-batch has been added
  };

  absl::Status RunRound(Round round);
  absl::Status Timed(const Instruction& instruction, bool traced);
  // What `instruction` does in the middle of another one; with its own time.
  absl::Status Aside(const Instruction& instruction, absl::FunctionRef<absl::Status()> work);
  // Notes the time from the last call's `until`, or since the instruction began. Returns it.
  absl::Duration NoteTime(const Instruction& instruction, absl::Duration until);
  absl::Status Execute(const Instruction& instruction);
  absl::Status LoadBatch(const Instruction& instruction, Slot* slot);
  absl::Status LoadGroup(const Instruction& instruction, Slot* slot);
  // The next batch, which must be micro-batch or chunk `index` of the round.
  absl::StatusOr<Batch> TakeBatch(uint32_t index);
  absl::Status AwaitWeights(const Instruction& instruction);
  // What the forward pass of a block waits for whose weights are on their way.
  absl::Status AwaitPart(uint64_t first, uint64_t count);
  // All that the last kAwaitWeights has not waited for.
  absl::Status AwaitRest();
  absl::Status Receive(const Instruction& instruction, FlowDirection direction, Slot* slot);
  absl::Status Send(const Instruction& instruction, FlowDirection direction, const Slot& slot);
  absl::Status Forward(const Instruction& instruction, Slot* slot);
  absl::Status ComputeLoss(const Instruction& instruction, Slot* slot);
  absl::Status Backward(const Instruction& instruction, Slot* slot);
  absl::Status EmitGradient(const Instruction& instruction);
  absl::Status Release(const Instruction& instruction, Slot* slot);
  absl::Status Score(const Instruction& instruction, const Slot& slot);

  // The slot of an instruction, opened for its micro-batch when it is new.
  Slot* SlotOf(const Instruction& instruction);
  SlotMemory& MemoryOf(const Instruction& instruction);
  // What the block reads; output of the block in front, the batch or what came.
  absl::StatusOr<ConstMatrix> InputOf(const Instruction& instruction, const Slot& slot);
  absl::StatusOr<ConstMatrix> OutputGradientOf(const Instruction& instruction, const Slot& slot);
  // Places for the block's gradients of the share under way.
  absl::StatusOr<BlockGradients> GradientsOf(uint32_t block, const Slot& slot);
  // The same for a pass that may be the last one before the gradient is emitted.
  absl::StatusOr<BlockGradients> LastGradientsOf(const Instruction& instruction, const Slot& slot);
  LaneTransfers::GradientLabel LabelOf(const Instruction& emit, const ParameterUse& use) const;
  // Those for which no micro-batch has a sample.
  absl::Status FillGradients(uint32_t block);
  BlockWeights WeightsOf(uint32_t block) const;
  LaneTransfers::Doing Doing(const Instruction& instruction) const { return {round_, instruction}; }
  // Whether the round's instructions are timed. Where the backend works on after its calls, the
  // lane has to wait for each of them, so only few rounds are.
  bool IsTimed() const;
  uint64_t RowsOf(uint32_t index) const;
  // Of all `count` micro-batches from `index` on.
  uint64_t RowsOf(uint32_t index, uint32_t count) const;
  uint64_t SamplesOfShare(uint32_t share) const;
  const v1::BlockLayout& layout(uint32_t block) const {
    return parts_.job->plan.layout().block(static_cast<int>(block));
  }
  uint32_t num_blocks() const {
    return static_cast<uint32_t>(parts_.job->plan.layout().block_size());
  }
  Backend* backend() const { return memory_->backend.get(); }

  const RunParts& parts_;
  const uint32_t index_;
  LaneMemory* const memory_;
  const std::unique_ptr<LaneTransfers> transfers_;
  std::map<uint32_t, Boundary> boundaries_;  // by id

  Round round_;
  Instruction current_;                // under way
  const Instruction* next_ = nullptr;  // in the list, after the one under way
  // kAwaitWeights of the block that is computed next, which has not waited for all of them.
  std::optional<Instruction> arriving_;
  const WeightsArrival arrival_ = [this](uint64_t first, uint64_t count) {
    return AwaitPart(first, count);
  };
  // The block whose gradient is told to transfers_ as it is computed: by whom, and to whom.
  const GradientProgress* told_ = nullptr;
  const GradientProgress progress_ = [this](uint64_t first, uint64_t count) {
    return Aside(*next_, [&] { return (*told_)(first, count); });
  };
  // Of the instruction under way, for NoteTime.
  bool timed_ = false;
  bool traced_ = false;
  absl::Duration noted_;
  absl::Duration own_time_;               // without asides
  std::vector<Stage> stages_;             // by chunk
  std::vector<const float*> weights_;     // by segment; nullptr before they were awaited
  std::vector<BlockGradient> gradients_;  // by block
  PendingLosses losses_;
  ActivityRecord record_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_LANE_H_
