#ifndef SANGAM_WORKER_RUNTIME_HOST_TRANSFERS_H_
#define SANGAM_WORKER_RUNTIME_HOST_TRANSFERS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor/buffer.h"
#include "worker/backend/views.h"
#include "worker/core/flow_tag.h"
#include "worker/data/batch_source.h"
#include "worker/layers/segment_progress.h"
#include "worker/runtime/gradient_outbox.h"
#include "worker/runtime/lane_transfers.h"
#include "worker/runtime/run_parts.h"

namespace sangam {

// For backends that work in the host's memory: nothing moves but pointers, and what is sent to a
// neighbour is copied once.
class HostTransfers : public LaneTransfers {
 public:
  // `parts` outlives this.
  HostTransfers(const RunParts& parts, uint32_t lane);

  bool at_once() const override { return true; }
  absl::StatusOr<const float*> Weights(uint32_t segment, uint64_t step, const float* host) override;
  absl::StatusOr<const float*> Inputs(Slot slot, Batch batch) override;
  absl::StatusOr<const float*> Arrival(Slot slot, const FlowTag& tag, FlowShape shape,
                                       FloatBuffer tensor) override;
  absl::Status Send(const FlowTag& tag, ConstMatrix tensor, FloatBuffer buffer,
                    const Doing& doing) override;
  absl::StatusOr<Matrix> GradientPlace(uint32_t segment, uint32_t use) override;
  absl::StatusOr<const GradientProgress*> BeginLast(const GradientLabel& gradient) override;
  absl::Status Emit(const GradientLabel& gradient, const Doing& doing) override;
  absl::Status Release(Slot slot) override;
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  struct Kept {
    Batch batch;
    std::vector<FloatBuffer> tensors;
  };

  static GradientOutbox::Gradient Labelled(const GradientLabel& gradient, FloatBuffer values);
  Backend* backend() const { return parts_.job->lanes[lane_].backend.get(); }

  const RunParts& parts_;
  const uint32_t lane_;
  std::map<std::pair<uint32_t, uint32_t>, Kept> kept_;              // by chunk and slot
  std::map<std::pair<uint32_t, uint32_t>, FloatBuffer> gradients_;  // by segment and use
  GradientOutbox::Gradient last_;  // whose parts leave as they become final
  GradientProgress progress_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_HOST_TRANSFERS_H_
