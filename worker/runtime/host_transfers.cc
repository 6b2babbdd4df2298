#include "worker/runtime/host_transfers.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/core/flow_tag.h"
#include "worker/data/batch_source.h"
#include "worker/runtime/gradient_outbox.h"

namespace sangam {

HostTransfers::HostTransfers(const RunParts& parts, uint32_t lane)
    : parts_(parts), lane_(lane), progress_([this](uint64_t first, uint64_t count) {
        return parts_.job->outbox->EmitPart(last_, first, count, parts_.link);
      }) {}

absl::StatusOr<const float*> HostTransfers::Weights(uint32_t segment, uint64_t step,
                                                    const float* host) {
  (void)segment;
  (void)step;
  return host;
}

absl::StatusOr<const float*> HostTransfers::Inputs(Slot slot, Batch batch) {
  const float* const inputs = batch.inputs;
  kept_[{slot.chunk, slot.slot}].batch = std::move(batch);
  return inputs;
}

absl::StatusOr<const float*> HostTransfers::Arrival(Slot slot, const FlowTag& tag, FlowShape shape,
                                                    FloatBuffer tensor) {
  (void)tag;
  (void)shape;
  const float* const data = tensor.data();
  kept_[{slot.chunk, slot.slot}].tensors.push_back(std::move(tensor));
  return data;
}

absl::Status HostTransfers::Send(const FlowTag& tag, ConstMatrix tensor, FloatBuffer buffer,
                                 const Doing& doing) {
  (void)doing;
  // Copied: the slot's memory is used again before the neighbour has taken the tensor.
  RETURN_IF_ERROR(backend()->Download(tensor, buffer.data()));
  RETURN_IF_ERROR(backend()->Synchronize());
  const FlowShape shape{static_cast<uint64_t>(tensor.rows), static_cast<uint64_t>(tensor.cols)};
  return parts_.job->pipeline->Send(lane_, tag, shape, std::move(buffer));
}

absl::StatusOr<Matrix> HostTransfers::GradientPlace(uint32_t segment, uint32_t use) {
  FloatBuffer& sum = gradients_[{segment, use}];
  ASSIGN_OR_RETURN(sum, parts_.job->outbox->Take(segment, use));
  return Matrix{sum.data(), 1, static_cast<int64_t>(sum.size())};
}

GradientOutbox::Gradient HostTransfers::Labelled(const GradientLabel& gradient,
                                                 FloatBuffer values) {
  GradientOutbox::Gradient labelled;
  labelled.step = gradient.step;
  labelled.segment = gradient.segment;
  labelled.use = gradient.use;
  labelled.share = gradient.share;
  labelled.shares = gradient.shares;
  labelled.sum.values = std::move(values);
  labelled.sum.samples = gradient.samples;
  return labelled;
}

absl::StatusOr<const GradientProgress*> HostTransfers::BeginLast(const GradientLabel& gradient) {
  last_ = Labelled(gradient, gradients_[{gradient.segment, gradient.use}]);
  ASSIGN_OR_RETURN(const bool in_parts,
                   parts_.job->outbox->BeginParts(last_, parts_.job->store.get()));
  if (in_parts) return &progress_;
  last_ = GradientOutbox::Gradient();
  return nullptr;
}

absl::Status HostTransfers::Emit(const GradientLabel& gradient, const Doing& doing) {
  (void)doing;
  RETURN_IF_ERROR(backend()->Synchronize());
  // A handle that is left would keep the buffer from being used again.
  last_ = GradientOutbox::Gradient();
  FloatBuffer values = std::exchange(gradients_[{gradient.segment, gradient.use}], FloatBuffer());
  return parts_.job->outbox->Emit(Labelled(gradient, std::move(values)), parts_.job->store.get(),
                                  parts_.link);
}

absl::Status HostTransfers::Release(Slot slot) {
  // Work that the backend has not done yet may still read what is let go.
  RETURN_IF_ERROR(backend()->Synchronize());
  Kept& kept = kept_[{slot.chunk, slot.slot}];
  kept.batch = Batch();
  kept.tensors.clear();
  return absl::OkStatus();
}

}  // namespace sangam
