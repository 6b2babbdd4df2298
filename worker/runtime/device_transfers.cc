#include "worker/runtime/device_transfers.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/core/flow_tag.h"
#include "worker/data/batch_source.h"
#include "worker/runtime/device_weights.h"
#include "worker/runtime/gradient_outbox.h"
#include "worker/runtime/lane_memory.h"

namespace sangam {
namespace {

// Downloads on their way, at most. Tensors and gradients are bounded by their buffers before that.
constexpr size_t kMostDownloads = 256;

}  // namespace

DeviceTransfers::DeviceTransfers(const RunParts& parts, uint32_t lane)
    : parts_(parts),
      lane_(lane),
      backend_(parts.job->lanes[lane].backend.get()),
      memory_(parts.job->lanes[lane].device.get()),
      queue_(kMostDownloads, [&parts](const absl::Status& status) {
        if (parts.fail) parts.fail(status);
      }) {}

DeviceTransfers::~DeviceTransfers() {
  queue_.Stop();
  // Whoever let the lane end knows why already.
  (void)backend_->Synchronize();
}

absl::StatusOr<const float*> DeviceTransfers::Weights(uint32_t segment, uint64_t step,
                                                      const float* host) {
  const auto elements = static_cast<int64_t>(parts_.job->store->segment_elements(segment));
  parts_.pins->Meet(backend_, host, elements);
  return parts_.job->device_weights->Bring(segment, step, host, backend_);
}

absl::StatusOr<const float*> DeviceTransfers::Upload(const float* host, int64_t rows,
                                                     int64_t columns, TransferRing* ring,
                                                     Kept* kept) {
  TransferRing::Place* const place = ring->Next();
  ASSIGN_OR_RETURN(std::shared_ptr<const BackendEvent> upload,
                   backend_->UploadBeside(host, {place->memory->data(), rows, columns},
                                          place->free_after.get()));
  RETURN_IF_ERROR(backend_->WaitFor(*upload));
  kept->uploads.push_back(std::move(upload));
  kept->places.push_back(place);
  return place->memory->data();
}

absl::StatusOr<const float*> DeviceTransfers::Inputs(Slot slot, Batch batch) {
  Kept& kept = kept_[{slot.chunk, slot.slot}];
  kept.batch = std::move(batch);
  const float* const inputs = kept.batch.inputs;
  if (inputs == nullptr || kept.batch.rows == 0) return nullptr;
  int64_t columns = 1;
  for (const uint64_t d : parts_.job->plan.layout().block(0).input_shape()) {
    columns *= static_cast<int64_t>(d);
  }
  parts_.pins->Meet(backend_, inputs,
                    static_cast<int64_t>(parts_.job->cut.MaxMicroBatchSize()) * columns);
  return Upload(inputs, static_cast<int64_t>(kept.batch.rows), columns,
                &memory_->slots[slot.chunk][slot.slot].inputs, &kept);
}

absl::StatusOr<const float*> DeviceTransfers::Arrival(Slot slot, const FlowTag& tag,
                                                      FlowShape shape, FloatBuffer tensor) {
  Kept& kept = kept_[{slot.chunk, slot.slot}];
  kept.tensors.push_back(std::move(tensor));
  const FloatBuffer& buffer = kept.tensors.back();
  parts_.pins->Meet(backend_, buffer.data(), static_cast<int64_t>(buffer.size()));
  TransferRing& ring =
      memory_->slots[slot.chunk][slot.slot].arrivals.at({tag.boundary, tag.direction});
  return Upload(buffer.data(), static_cast<int64_t>(shape.rows),
                static_cast<int64_t>(shape.columns), &ring, &kept);
}

absl::StatusOr<uint64_t> DeviceTransfers::WhenDownloaded(std::shared_ptr<const BackendEvent> event,
                                                         std::function<absl::Status()> action,
                                                         const Doing& doing) {
  EventQueue::Entry entry;
  entry.event = std::move(event);
  entry.action = std::move(action);
  entry.where = [doing] { return ToString(doing); };
  return queue_.Add(std::move(entry));
}

absl::Status DeviceTransfers::Send(const FlowTag& tag, ConstMatrix tensor, FloatBuffer buffer,
                                   const Doing& doing) {
  parts_.pins->Meet(backend_, buffer.data(), static_cast<int64_t>(buffer.size()));
  TransferRing::Place* const place = memory_->departures.at({tag.boundary, tag.direction}).Next();
  const Matrix copy{place->memory->data(), tensor.rows, tensor.cols};
  // Copied on the device, which is short beside the download: the tensor may lie in memory that the
  // next pass writes to.
  if (place->free_after != nullptr) RETURN_IF_ERROR(backend_->WaitFor(*place->free_after));
  RETURN_IF_ERROR(backend_->Copy(tensor, copy));
  ASSIGN_OR_RETURN(place->free_after, backend_->DownloadBeside(copy, buffer.data()));
  const FlowShape shape{static_cast<uint64_t>(tensor.rows), static_cast<uint64_t>(tensor.cols)};
  PipelineLink* const link = parts_.job->pipeline.get();
  return WhenDownloaded(
             place->free_after,
             [link, lane = lane_, tag, shape, buffer = std::move(buffer)]() mutable {
               return link->Send(lane, tag, shape, std::move(buffer));
             },
             doing)
      .status();
}

absl::StatusOr<Matrix> DeviceTransfers::GradientPlace(uint32_t segment, uint32_t use) {
  const DeviceMemory::Use key(segment, use);
  // Free: the download of the gradient before the last one was over when the last one was emitted;
  // where there is one place, that of the last step before the weights of this one could come.
  TransferRing::Place* const place = memory_->gradients.at(key).Next();
  gradients_[key].place = place;
  return Matrix{place->memory->data(), 1, place->memory->size()};
}

absl::Status DeviceTransfers::Emit(const GradientLabel& gradient, const Doing& doing) {
  Gradient& use = gradients_.at({gradient.segment, gradient.use});
  // So the outbox has a buffer, and the next share a place.
  RETURN_IF_ERROR(queue_.AwaitDone(use.entry));
  GradientOutbox::Gradient emitted;
  emitted.step = gradient.step;
  emitted.segment = gradient.segment;
  emitted.use = gradient.use;
  emitted.share = gradient.share;
  emitted.sum.samples = gradient.samples;
  ASSIGN_OR_RETURN(emitted.sum.values, parts_.job->outbox->Take(gradient.segment, gradient.use));
  const FloatBuffer& buffer = emitted.sum.values;
  parts_.pins->Meet(backend_, buffer.data(), static_cast<int64_t>(buffer.size()));
  const TransferRing::Place* const place = std::exchange(use.place, nullptr);
  ASSIGN_OR_RETURN(
      std::shared_ptr<const BackendEvent> download,
      backend_->DownloadBeside({place->memory->data(), 1, place->memory->size()}, buffer.data()));
  ASSIGN_OR_RETURN(
      use.entry,
      WhenDownloaded(
          std::move(download),
          [job = parts_.job, link = parts_.link, emitted = std::move(emitted)]() mutable {
            return job->outbox->Emit(std::move(emitted), job->store.get(), link);
          },
          doing));
  return absl::OkStatus();
}

absl::Status DeviceTransfers::Release(Slot slot) {
  Kept& kept = kept_[{slot.chunk, slot.slot}];
  if (!kept.places.empty()) {
    // Whoever brings something to these places next waits on the device for all that reads them.
    ASSIGN_OR_RETURN(const std::shared_ptr<const BackendEvent> used, backend_->Record());
    for (TransferRing::Place* place : kept.places) place->free_after = used;
  }
  // The host's memory is free when the uploads are done; the device need not have used them.
  for (const auto& upload : kept.uploads) RETURN_IF_ERROR(upload->Wait());
  kept = Kept();
  return absl::OkStatus();
}

absl::Status DeviceTransfers::Finish() { return queue_.Finish(); }

}  // namespace sangam
