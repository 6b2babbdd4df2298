#include "worker/runtime/lane_memory.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/plan/pipeline_layout.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/layers/block.h"
#include "worker/runtime/precision.h"
#include "worker/runtime/prepared_job.h"

namespace sangam {
namespace {

template <typename Shape>
int64_t Elements(const Shape& shape) {
  uint64_t elements = 1;
  for (const uint64_t dimension : shape) elements *= dimension;
  return static_cast<int64_t>(elements);
}

// Whether another block adds the output of `block` to its input.
bool FeedsSkip(const v1::ModelLayout& layout, uint32_t block) {
  for (const v1::BlockLayout& other : layout.block()) {
    if (other.has_skip_from() && other.skip_from() == block) return true;
  }
  return false;
}

// Whether the gradient of the block's output needs memory of the slot: it is the loss's, or a sum,
// or what the block behind returned lies in scratch that other micro-batches use before
// BackwardWeights.
bool KeepsOutputGradient(const PreparedJob& job, uint32_t block) {
  const v1::ModelLayout& layout = job.plan.layout();
  const auto last = static_cast<uint32_t>(layout.block_size()) - 1;
  if (block == last || FeedsSkip(layout, block)) return true;
  return job.backward_mode == BackwardMode::kSplit && job.recompute[block + 1];
}

absl::StatusOr<SlotMemory> BuildSlot(const PreparedJob& job, const v1::StagePlan& stage,
                                     Backend* backend, StageMemory* memory) {
  const auto rows = static_cast<int64_t>(job.cut.MaxMicroBatchSize());
  SlotMemory slot;
  for (uint32_t i = 0; i < stage.block_count(); ++i) {
    const uint32_t b = stage.first_block() + i;
    const v1::BlockLayout& layout = job.plan.layout().block(static_cast<int>(b));
    ASSIGN_OR_RETURN(std::unique_ptr<BlockState> state,
                     job.blocks[b]->NewState(backend, static_cast<uint64_t>(rows),
                                             job.backward_mode, memory->scratch[i].get()));
    slot.states.push_back(std::move(state));
    std::unique_ptr<BackendMemory> sum;
    if (layout.has_skip_from()) {
      ASSIGN_OR_RETURN(sum, backend->Allocate(rows * Elements(layout.input_shape())));
    }
    slot.input_sums.push_back(std::move(sum));
    std::unique_ptr<BackendMemory> gradient;
    if (KeepsOutputGradient(job, b)) {
      ASSIGN_OR_RETURN(gradient, backend->Allocate(rows * Elements(layout.output_shape())));
    }
    slot.output_gradients.push_back(std::move(gradient));
  }
  return slot;
}

}  // namespace

absl::StatusOr<LaneMemory> BuildLaneMemory(const PreparedJob& job, const std::string& backend,
                                           const std::vector<uint32_t>& slots) {
  LaneMemory lane;
  ASSIGN_OR_RETURN(lane.backend, CreateBackend(backend, ToPrecision(job.spec.precision())));
  if (!lane.backend->uses_host_memory()) {
    return absl::UnimplementedError(absl::StrCat(
        "backend ", backend, ": has memory of its own, expected one that works in the host's"));
  }
  for (uint32_t chunk = 0; chunk < slots.size(); ++chunk) {
    const v1::StagePlan& stage =
        job.plan.stage(static_cast<int>(StageOf(job.plan, job.worker, chunk)));
    StageMemory memory;
    for (uint32_t i = 0; i < stage.block_count(); ++i) {
      ASSIGN_OR_RETURN(std::unique_ptr<BlockScratch> scratch,
                       job.blocks[stage.first_block() + i]->NewScratch(
                           lane.backend.get(), job.cut.MaxMicroBatchSize(), job.backward_mode));
      memory.scratch.push_back(std::move(scratch));
    }
    for (uint32_t s = 0; s < slots[chunk]; ++s) {
      ASSIGN_OR_RETURN(SlotMemory slot, BuildSlot(job, stage, lane.backend.get(), &memory));
      memory.slots.push_back(std::move(slot));
    }
    lane.stages.push_back(std::move(memory));
  }
  return lane;
}

}  // namespace sangam
