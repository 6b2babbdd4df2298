#ifndef SANGAM_WORKER_BACKEND_CUDA_STAGING_H_
#define SANGAM_WORKER_BACKEND_CUDA_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "worker/backend/backend.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/cuda/lane.h"
#include "worker/backend/cuda/scratch.h"
#include "worker/backend/shapes.h"

namespace sangam {

// Takes small things to the device, such as the labels of a batch, without waiting for it: they are
// copied first to host memory that the device reads by itself. There are several such places, used
// in turn; only who comes round to one that the device has not read yet waits. Not thread-safe.
class CudaStaging {
 public:
  explicit CudaStaging(CudaLane* lane, size_t places = 4)
      : lane_(lane), on_device_(lane), places_(places) {}

  // The same bytes in device memory, until the next call's copy; in the order of the computing
  // stream. `host` may change when the call has returned. REQUIRES: CudaLane::Begin.
  absl::StatusOr<const void*> Take(const void* host, int64_t bytes);

  // Of the device's.
  int64_t missing_bytes() const { return on_device_.missing_bytes(); }
  // For what Take was asked for in a rehearsal.
  absl::Status MakeRoom();

 private:
  struct Place {
    PinnedBuffer buffer;
    std::unique_ptr<CudaPoint> read;  // when the device has it; nullptr: unused yet
  };

  CudaLane* lane_;
  CudaScratch on_device_;
  std::vector<Place> places_;
  size_t next_ = 0;
  int64_t wanted_ = 0;  // of each place, in bytes
};

// Sums of losses on their way to the host. Not thread-safe, but for the end of what Send gives.
class CudaSums {
 public:
  explicit CudaSums(CudaLane* lane) : lane_(lane) {}

  // Where a kernel on the computing stream writes the next sums: they are gone at the next call.
  absl::StatusOr<ClassificationSums*> Cell();
  // Brings them to the host.
  absl::StatusOr<std::unique_ptr<PendingSums>> Send();

  // For the first ones.
  absl::Status MakeRoom();

 private:
  class Pending;

  absl::Status AddBlock() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<ClassificationSums*> Take();
  void GiveBack(ClassificationSums* on_host);

  CudaLane* lane_;
  DeviceBuffer on_device_;
  std::vector<PinnedBuffer> blocks_;  // of cells on the host

  Mutex mutex_;
  std::vector<ClassificationSums*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_STAGING_H_
