#ifndef SANGAM_WORKER_RUNTIME_LANE_TRANSFERS_H_
#define SANGAM_WORKER_RUNTIME_LANE_TRANSFERS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor/buffer.h"
#include "worker/backend/views.h"
#include "worker/core/flow_tag.h"
#include "worker/core/instruction.h"
#include "worker/core/timeline.h"
#include "worker/data/batch_source.h"
#include "worker/layers/segment_progress.h"
#include "worker/runtime/run_parts.h"

namespace sangam {

// How what a lane computes with comes from the host's memory to its backend's, and what it has
// computed goes back: not at all where they are one (HostTransfers), else by copies beside the
// computation (DeviceTransfers). A pointer into the backend's memory is for the operations that the
// lane asks for after the call. Belongs to the lane's thread.
class LaneTransfers {
 public:
  // A slot of one of the worker's stages.
  struct Slot {
    uint32_t chunk = 0;
    uint32_t slot = 0;
  };
  // What the lane is doing, for the text of errors that are found later.
  struct Doing {
    Round round;
    Instruction instruction;
  };

  virtual ~LaneTransfers() = default;

  // The kind that the lane's backend needs.
  static std::unique_ptr<LaneTransfers> Create(const RunParts& parts, uint32_t lane);

  // Whether the backend has done an operation when its call returns.
  virtual bool at_once() const = 0;

  // The weights of `segment` at `step`, which the store has at `host`.
  virtual absl::StatusOr<const float*> Weights(uint32_t segment, uint64_t step,
                                               const float* host) = 0;

  // The inputs of a batch (nullptr where it has none), which is kept until Release.
  virtual absl::StatusOr<const float*> Inputs(Slot slot, Batch batch) = 0;

  // A tensor that came from another stage, which is kept until Release.
  virtual absl::StatusOr<const float*> Arrival(Slot slot, const FlowTag& tag, FlowShape shape,
                                               FloatBuffer tensor) = 0;

  // Sends a tensor by way of `buffer`, which the pipeline's link gave for it.
  virtual absl::Status Send(const FlowTag& tag, ConstMatrix tensor, FloatBuffer buffer,
                            const Doing& doing) = 0;

  // Where the gradient of one use of a segment is summed for the next share; its content is
  // arbitrary. One Emit belongs to each. Errors: as GradientOutbox::Take
  virtual absl::StatusOr<Matrix> GradientPlace(uint32_t segment, uint32_t use) = 0;

  // What of a gradient the lane knows when it is computed.
  struct GradientLabel {
    uint64_t step = 0;
    uint32_t segment = 0;
    uint32_t use = 0;
    uint32_t share = 0;
    uint32_t shares = 1;  // from `share` on
    uint64_t samples = 0;
  };
  // The pass that comes next completes the gradient at its place. Returns whom it is to tell which
  // elements are final, valid until Emit; nullptr: nobody. Errors: as GradientOutbox::BeginParts
  virtual absl::StatusOr<const GradientProgress*> BeginLast(const GradientLabel& gradient) {
    (void)gradient;
    return nullptr;
  }
  // Hands the gradient at its place to the outbox. Errors: as GradientOutbox::Emit
  virtual absl::Status Emit(const GradientLabel& gradient, const Doing& doing) = 0;

  // Lets go of what was kept for the slot.
  virtual absl::Status Release(Slot slot) = 0;

  // Waits until everything has been sent and emitted. Errors: what failed on the way
  virtual absl::Status Finish() = 0;
};

// "training at step 3, Forward b1 mb 2".
std::string ToString(const LaneTransfers::Doing& doing);

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_LANE_TRANSFERS_H_
