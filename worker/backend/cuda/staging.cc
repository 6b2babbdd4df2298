#include "worker/backend/cuda/staging.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/cuda/lane.h"
#include "worker/backend/shapes.h"

namespace sangam {

absl::StatusOr<const void*> CudaStaging::Take(const void* host, int64_t bytes) {
  if (lane_->rehearses()) {
    wanted_ = std::max(wanted_, bytes);
    return on_device_.Get(bytes);
  }
  Place& place = places_[next_];
  next_ = (next_ + 1) % places_.size();
  if (place.read != nullptr) RETURN_IF_ERROR(place.read->Wait());
  if (place.buffer.bytes() < bytes) {
    place.buffer = PinnedBuffer();  // frees first
    ASSIGN_OR_RETURN(place.buffer, PinnedBuffer::Allocate(bytes));
  }
  ASSIGN_OR_RETURN(void* const on_device, on_device_.Get(bytes));
  const auto size = static_cast<size_t>(bytes);
  std::memcpy(place.buffer.data(), host, size);
  RETURN_IF_ERROR(lane_->Check(cudaMemcpyAsync(on_device, place.buffer.data(), size,
                                               cudaMemcpyHostToDevice, lane_->compute()),
                               "a copy of labels"));
  ASSIGN_OR_RETURN(place.read, lane_->Record(lane_->compute()));
  return on_device;
}

absl::Status CudaStaging::MakeRoom() {
  for (Place& place : places_) {
    if (place.buffer.bytes() >= wanted_) continue;
    if (place.read != nullptr) RETURN_IF_ERROR(place.read->Wait());
    ASSIGN_OR_RETURN(place.buffer, PinnedBuffer::Allocate(wanted_));
  }
  return on_device_.MakeRoom();
}

class CudaSums::Pending : public PendingSums {
 public:
  Pending(CudaSums* owner, ClassificationSums* on_host, std::unique_ptr<CudaPoint> arrived)
      : owner_(owner), on_host_(on_host), arrived_(std::move(arrived)) {}
  // Copies to the place follow one another in one stream: the next owner's comes last.
  ~Pending() override { owner_->GiveBack(on_host_); }

  absl::StatusOr<ClassificationSums> Get() override {
    RETURN_IF_ERROR(arrived_->Wait());
    return *on_host_;
  }

 private:
  CudaSums* owner_;
  ClassificationSums* on_host_;
  std::unique_ptr<CudaPoint> arrived_;
};

absl::StatusOr<ClassificationSums*> CudaSums::Cell() {
  if (on_device_.data() == nullptr) {
    ASSIGN_OR_RETURN(on_device_, DeviceBuffer::Allocate(sizeof(ClassificationSums)));
  }
  return static_cast<ClassificationSums*>(on_device_.data());
}

absl::Status CudaSums::AddBlock() {
  // More than a step has micro-batches, mostly.
  constexpr size_t kCells = 64;
  ASSIGN_OR_RETURN(PinnedBuffer block, PinnedBuffer::Allocate(kCells * sizeof(ClassificationSums)));
  auto* const cells = static_cast<ClassificationSums*>(block.data());
  blocks_.push_back(std::move(block));
  for (size_t i = 0; i < kCells; ++i) free_.push_back(new (cells + i) ClassificationSums);
  return absl::OkStatus();
}

absl::Status CudaSums::MakeRoom() {
  RETURN_IF_ERROR(Cell().status());
  const MutexLock lock(&mutex_);
  return blocks_.empty() ? AddBlock() : absl::OkStatus();
}

absl::StatusOr<ClassificationSums*> CudaSums::Take() {
  const MutexLock lock(&mutex_);
  if (free_.empty()) RETURN_IF_ERROR(AddBlock());
  ClassificationSums* const cell = free_.back();
  free_.pop_back();
  return cell;
}

void CudaSums::GiveBack(ClassificationSums* on_host) {
  const MutexLock lock(&mutex_);
  free_.push_back(on_host);
}

absl::StatusOr<std::unique_ptr<PendingSums>> CudaSums::Send() {
  ASSIGN_OR_RETURN(ClassificationSums* const on_host, Take());
  absl::Status sent =
      lane_->Check(cudaMemcpyAsync(on_host, on_device_.data(), sizeof(ClassificationSums),
                                   cudaMemcpyDeviceToHost, lane_->compute()),
                   "a copy of sums");
  if (!sent.ok()) {
    GiveBack(on_host);
    return sent;
  }
  absl::StatusOr<std::unique_ptr<CudaPoint>> arrived = lane_->Record(lane_->compute());
  if (!arrived.ok()) {
    GiveBack(on_host);
    return arrived.status();
  }
  return std::make_unique<Pending>(this, on_host, *std::move(arrived));
}

}  // namespace sangam
