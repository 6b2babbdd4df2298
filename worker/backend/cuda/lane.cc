#include "worker/backend/cuda/lane.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "worker/backend/cuda/cuda_status.h"
#include "worker/backend/cuda/device.h"
#include "worker/backend/device_lost.h"

namespace sangam {
namespace {

absl::Status MakeStream(cudaStream_t* stream) {
  // Does not wait for the default stream, which nobody uses.
  return CudaStatus(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "a new stream");
}

}  // namespace

CudaPoint::~CudaPoint() { lane_->GiveBack(event_); }

absl::Status CudaPoint::Wait() const { return lane_->Wait(event_, operations_); }

absl::StatusOr<std::unique_ptr<CudaLane>> CudaLane::Create(int device) {
  ASSIGN_OR_RETURN(const CudaDevice opened, OpenCudaDevice(device));
  auto lane = absl::WrapUnique(new CudaLane(device));
  lane->compute_major_ = opened.compute_major;
  RETURN_IF_ERROR(lane->MakeStreams());
  return lane;
}

absl::Status CudaLane::MakeStreams() {
  RETURN_IF_ERROR(MakeStream(&compute_));
  RETURN_IF_ERROR(MakeStream(&upload_));
  return MakeStream(&download_);
}

// What these calls may say is of no use to anybody any more.
CudaLane::~CudaLane() {
  cudaSetDevice(device_);
  for (cudaStream_t stream : {compute_, upload_, download_}) {
    if (stream == nullptr) continue;
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }
  for (cudaEvent_t event : free_events_) cudaEventDestroy(event);
  cudaGetLastError();
}

absl::Status CudaLane::Begin(const char* operation) { return Begin(std::vector{operation}); }

absl::Status CudaLane::Begin(const std::vector<const char*>& operations) {
  {
    const MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    for (const char* operation : operations) operations_.Add(operation);
  }
  // It is the thread's since the recording began.
  if (records_) return absl::OkStatus();
  return Check(cudaSetDevice(device_), "cudaSetDevice");
}

absl::Status CudaLane::CannotRecord(absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("cuda: a graph cannot be recorded: ", what));
}

absl::Status CudaLane::Check(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  absl::Status status = CudaStatus(error, what);
  if (!EndsTheDevice(error)) return status;
  const MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  const std::string pending = operations_.Pending();
  failure_ = DeviceLost(absl::StrCat(status.message(), pending.empty() ? "" : ", after: ", pending,
                                     "; device ", device_,
                                     " is lost to this process, which has to start anew"));
  return failure_;
}

absl::Status CudaLane::CheckWait(cudaError_t error, int64_t operations) {
  if (error != cudaSuccess) return Check(error, "waiting for the device");
  const MutexLock lock(&mutex_);
  operations_.MarkDone(operations);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CudaPoint>> CudaLane::Record(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  int64_t operations = 0;
  {
    const MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    // Uploads wait for nothing.
    if (stream != upload_) operations = operations_.count();
    if (!free_events_.empty()) {
      event = free_events_.back();
      free_events_.pop_back();
    }
  }
  if (event == nullptr) {
    // A thread that waits for it sleeps: there may be more lanes than cores.
    RETURN_IF_ERROR(
        Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
              "a new event"));
  }
  auto point = std::make_unique<CudaPoint>(this, event, operations);
  RETURN_IF_ERROR(Check(cudaEventRecord(event, stream), "cudaEventRecord"));
  return point;
}

absl::Status CudaLane::Wait(cudaEvent_t event, int64_t operations) {
  RETURN_IF_ERROR(failure());
  RETURN_IF_ERROR(Check(cudaSetDevice(device_), "cudaSetDevice"));
  return CheckWait(cudaEventSynchronize(event), operations);
}

// By a point, as its wait sleeps.
absl::Status CudaLane::Synchronize(cudaStream_t stream) {
  RETURN_IF_ERROR(failure());
  if (records_) return CannotRecord("the device is waited for");
  RETURN_IF_ERROR(Check(cudaSetDevice(device_), "cudaSetDevice"));
  ASSIGN_OR_RETURN(const std::unique_ptr<CudaPoint> end, Record(stream));
  return end->Wait();
}

absl::Status CudaLane::Synchronize() {
  for (cudaStream_t stream : {compute_, upload_, download_}) RETURN_IF_ERROR(Synchronize(stream));
  return absl::OkStatus();
}

absl::Status CudaLane::failure() const {
  const MutexLock lock(&mutex_);
  return failure_;
}

void CudaLane::GiveBack(cudaEvent_t event) {
  const MutexLock lock(&mutex_);
  free_events_.push_back(event);
}

}  // namespace sangam
