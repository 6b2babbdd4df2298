#include "worker/runtime/lane_memory.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/plan/pipeline_layout.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/memory_source.h"
#include "worker/core/flow_tag.h"
#include "worker/core/lane_deal.h"
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
                                     const MemorySource& source, StageMemory* memory) {
  const auto rows = static_cast<int64_t>(job.MaxRows());
  SlotMemory slot;
  if (job.group > 1) {
    ASSIGN_OR_RETURN(slot.group_inputs,
                     source.Allocate(rows * Elements(job.plan.layout().block(0).input_shape())));
  }
  for (uint32_t i = 0; i < stage.block_count(); ++i) {
    const uint32_t b = stage.first_block() + i;
    const v1::BlockLayout& layout = job.plan.layout().block(static_cast<int>(b));
    ASSIGN_OR_RETURN(std::unique_ptr<BlockState> state,
                     job.blocks[b]->NewState(source, static_cast<uint64_t>(rows), job.backward_mode,
                                             memory->scratch[i].get()));
    slot.states.push_back(std::move(state));
    std::unique_ptr<BackendMemory> sum;
    if (layout.has_skip_from()) {
      ASSIGN_OR_RETURN(sum, source.Allocate(rows * Elements(layout.input_shape())));
    }
    slot.input_sums.push_back(std::move(sum));
    std::unique_ptr<BackendMemory> gradient;
    if (KeepsOutputGradient(job, b)) {
      ASSIGN_OR_RETURN(gradient, source.Allocate(rows * Elements(layout.output_shape())));
    }
    slot.output_gradients.push_back(std::move(gradient));
  }
  return slot;
}

const v1::StagePlan& StageAt(const PreparedJob& job, uint32_t chunk) {
  return job.plan.stage(static_cast<int>(StageOf(job.plan, job.worker, chunk)));
}

absl::Status TakeActivations(const PreparedJob& job, const LaneMemoryOptions& options,
                             const MemorySource& source, LaneMemory* lane) {
  for (uint32_t chunk = 0; chunk < options.slots.size(); ++chunk) {
    const v1::StagePlan& stage = StageAt(job, chunk);
    StageMemory memory;
    for (uint32_t i = 0; i < stage.block_count(); ++i) {
      ASSIGN_OR_RETURN(std::unique_ptr<BlockScratch> scratch,
                       job.blocks[stage.first_block() + i]->NewScratch(source, job.MaxRows(),
                                                                       job.backward_mode));
      memory.scratch.push_back(std::move(scratch));
    }
    for (uint32_t s = 0; s < options.slots[chunk]; ++s) {
      ASSIGN_OR_RETURN(SlotMemory slot, BuildSlot(job, stage, source, &memory));
      memory.slots.push_back(std::move(slot));
    }
    lane->stages.push_back(std::move(memory));
  }
  return absl::OkStatus();
}

absl::Status TakeWeights(const PreparedJob& job, const MemorySource& source, DeviceMemory* device) {
  for (const uint32_t segment : SegmentsOf(job.plan, job.worker)) {
    const auto elements =
        static_cast<int64_t>(job.plan.layout().segment(static_cast<int>(segment)).element_count());
    ASSIGN_OR_RETURN(device->weights[segment], source.Allocate(elements));
  }
  return absl::OkStatus();
}

// Two places for each use, so that one share's gradient leaves while the next one's is computed. A
// lane with one share needs one: no weights for the next can come before it has left.
absl::Status TakeGradients(const PreparedJob& job, const LaneMemoryOptions& options,
                           const MemorySource& source, DeviceMemory* device) {
  const LaneDeal deal(job.plan, job.worker, options.lanes);
  const size_t places = deal.SharesOf(options.lane).size() > 1 ? 2 : 1;
  for (const ParameterUse& use : UsesOf(job.plan, job.worker)) {
    const auto elements = static_cast<int64_t>(
        job.plan.layout().segment(static_cast<int>(use.segment)).element_count());
    ASSIGN_OR_RETURN(device->gradients[std::make_pair(use.segment, use.use)],
                     TransferRing::Allocate(source, elements, places));
  }
  return absl::OkStatus();
}

absl::Status TakeSlotTransfers(const PreparedJob& job, uint32_t chunk, const MemorySource& source,
                               DeviceMemory::Slot* slot) {
  const auto rows = static_cast<int64_t>(job.cut.MaxMicroBatchSize());
  const uint32_t stage = StageOf(job.plan, job.worker, chunk);
  if (stage == 0) {
    const int64_t inputs = rows * Elements(job.plan.layout().block(0).input_shape());
    ASSIGN_OR_RETURN(slot->inputs, TransferRing::Allocate(source, inputs, 2));
  }
  for (const Boundary& boundary : BoundariesOf(job.plan)) {
    const int64_t elements = rows * static_cast<int64_t>(boundary.columns);
    for (const FlowDirection direction : {FlowDirection::kForward, FlowDirection::kBackward}) {
      const bool forward = direction == FlowDirection::kForward;
      if ((forward ? boundary.to_stage : boundary.from_stage) != stage) continue;
      ASSIGN_OR_RETURN(slot->arrivals[std::make_pair(boundary.id, direction)],
                       TransferRing::Allocate(source, elements, 2));
    }
  }
  return absl::OkStatus();
}

absl::Status TakeTransfers(const PreparedJob& job, const LaneMemoryOptions& options,
                           const MemorySource& source, DeviceMemory* device) {
  const auto rows = static_cast<int64_t>(job.cut.MaxMicroBatchSize());
  for (uint32_t chunk = 0; chunk < options.slots.size(); ++chunk) {
    std::vector<DeviceMemory::Slot> slots(options.slots[chunk]);
    for (DeviceMemory::Slot& slot : slots) {
      RETURN_IF_ERROR(TakeSlotTransfers(job, chunk, source, &slot));
    }
    device->slots.push_back(std::move(slots));
    const uint32_t stage = StageOf(job.plan, job.worker, chunk);
    for (const Boundary& boundary : BoundariesOf(job.plan)) {
      const int64_t elements = rows * static_cast<int64_t>(boundary.columns);
      for (const FlowDirection direction : {FlowDirection::kForward, FlowDirection::kBackward}) {
        const bool forward = direction == FlowDirection::kForward;
        if ((forward ? boundary.from_stage : boundary.to_stage) != stage) continue;
        ASSIGN_OR_RETURN(device->departures[std::make_pair(boundary.id, direction)],
                         TransferRing::Allocate(source, elements, 2));
      }
    }
  }
  return absl::OkStatus();
}

// What a lane takes of its device, in floats.
struct DeviceDemand {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t activations = 0;
  int64_t transfers = 0;
};

double MiBOf(int64_t elements) {
  return static_cast<double>(elements) * sizeof(float) / (1024 * 1024);
}

// The sources of a lane's memory: one for all, or counters.
struct LaneSources {
  MemorySource weights;
  MemorySource gradients;
  MemorySource activations;
  MemorySource transfers;
};

absl::Status TakeDeviceMemory(const PreparedJob& job, const LaneMemoryOptions& options,
                              const LaneSources& sources, LaneMemory* lane) {
  lane->device = std::make_unique<DeviceMemory>();
  if (options.lane == 0) {
    RETURN_IF_ERROR(TakeWeights(job, sources.weights, lane->device.get()));
  }
  RETURN_IF_ERROR(TakeGradients(job, options, sources.gradients, lane->device.get()));
  RETURN_IF_ERROR(TakeTransfers(job, options, sources.transfers, lane->device.get()));
  return TakeActivations(job, options, sources.activations, lane);
}

// Counts what the lane will take, and has it set aside.
absl::Status ReserveDeviceMemory(const PreparedJob& job, const LaneMemoryOptions& options,
                                 Backend* backend) {
  DeviceDemand demand;
  const LaneSources counters = {
      MemorySource::Counting(&demand.weights), MemorySource::Counting(&demand.gradients),
      MemorySource::Counting(&demand.activations), MemorySource::Counting(&demand.transfers)};
  LaneMemory counted;
  RETURN_IF_ERROR(TakeDeviceMemory(job, options, counters, &counted));
  // No sum of four such counts is too large for its type.
  const int64_t total = demand.weights + demand.gradients + demand.activations + demand.transfers;
  RETURN_IF_ERROR(backend->Reserve(total),
                  "lane %d of %d needs %.1f MiB of the device's memory (weights %.1f, gradients "
                  "%.1f, activations %.1f, messages and batches %.1f)",
                  options.lane, options.lanes, MiBOf(total), MiBOf(demand.weights),
                  MiBOf(demand.gradients), MiBOf(demand.activations), MiBOf(demand.transfers));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TransferRing> TransferRing::Allocate(const MemorySource& source, int64_t elements,
                                                    size_t places) {
  TransferRing ring;
  for (size_t p = 0; p < places; ++p) {
    Place place;
    ASSIGN_OR_RETURN(place.memory, source.Allocate(elements));
    ring.places_.push_back(std::move(place));
  }
  return ring;
}

TransferRing::Place* TransferRing::Next() {
  Place* const place = &places_[next_];
  next_ = (next_ + 1) % places_.size();
  return place;
}

absl::StatusOr<LaneMemory> BuildLaneMemory(const PreparedJob& job,
                                           const LaneMemoryOptions& options) {
  LaneMemory lane;
  ASSIGN_OR_RETURN(lane.backend, CreateBackend(options.backend, ToPrecision(job.spec.precision()),
                                               options.device));
  Backend* const backend = lane.backend.get();
  if (backend->uses_host_memory()) {
    RETURN_IF_ERROR(TakeActivations(job, options, backend, &lane));
    return lane;
  }
  RETURN_IF_ERROR(ReserveDeviceMemory(job, options, backend));
  RETURN_IF_ERROR(TakeDeviceMemory(job, options, {backend, backend, backend, backend}, &lane));
  // New memory is all 0 when the device has come to it, and copies beside the computation would not
  // wait for that.
  RETURN_IF_ERROR(backend->Synchronize());
  return lane;
}

}  // namespace sangam
