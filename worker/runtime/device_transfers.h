#ifndef SANGAM_WORKER_RUNTIME_DEVICE_TRANSFERS_H_
#define SANGAM_WORKER_RUNTIME_DEVICE_TRANSFERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/core/flow_tag.h"
#include "worker/data/batch_source.h"
#include "worker/runtime/event_queue.h"
#include "worker/runtime/lane_memory.h"
#include "worker/runtime/lane_transfers.h"
#include "worker/runtime/run_parts.h"

namespace sangam {

// For backends with memory of their own. Everything is copied beside the computation: uploads go to
// places that are used in turn and wait for the last use of their place, never for what the lane
// has just asked for; what leaves is downloaded, and a thread that waits for these downloads hands
// it on. So the lane asks for work far ahead of its device, and stops only where too much is on its
// way.
class DeviceTransfers : public LaneTransfers {
 public:
  // `parts` outlives this.
  DeviceTransfers(const RunParts& parts, uint32_t lane);
  // Nothing is copied from or to the host's memory any more when it returns.
  ~DeviceTransfers() override;

  bool at_once() const override { return false; }
  absl::StatusOr<const float*> Weights(uint32_t segment, uint64_t step, const float* host) override;
  absl::StatusOr<const float*> Inputs(Slot slot, Batch batch) override;
  absl::StatusOr<const float*> Arrival(Slot slot, const FlowTag& tag, FlowShape shape,
                                       FloatBuffer tensor) override;
  absl::Status Send(const FlowTag& tag, ConstMatrix tensor, FloatBuffer buffer,
                    const Doing& doing) override;
  absl::StatusOr<Matrix> GradientPlace(uint32_t segment, uint32_t use) override;
  absl::Status Emit(const GradientLabel& gradient, const Doing& doing) override;
  absl::Status Release(Slot slot) override;
  absl::Status Finish() override;

 private:
  // What the micro-batch in a slot has brought.
  struct Kept {
    Batch batch;
    std::vector<FloatBuffer> tensors;
    std::vector<std::shared_ptr<const BackendEvent>> uploads;
    std::vector<TransferRing::Place*> places;
  };
  // The gradient of one use that is being summed, and the one before it.
  struct Gradient {
    TransferRing::Place* place = nullptr;
    uint64_t entry = 0;  // of the queue
  };

  // Uploads to the ring's next place.
  absl::StatusOr<const float*> Upload(const float* host, int64_t rows, int64_t columns,
                                      TransferRing* ring, Kept* kept);
  absl::StatusOr<uint64_t> WhenDownloaded(std::shared_ptr<const BackendEvent> event,
                                          std::function<absl::Status()> action, const Doing& doing);

  const RunParts& parts_;
  const uint32_t lane_;
  Backend* const backend_;
  DeviceMemory* const memory_;
  std::map<std::pair<uint32_t, uint32_t>, Kept> kept_;  // by chunk and slot
  std::map<DeviceMemory::Use, Gradient> gradients_;
  EventQueue queue_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_DEVICE_TRANSFERS_H_
