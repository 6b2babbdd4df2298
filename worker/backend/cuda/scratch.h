#ifndef SANGAM_WORKER_BACKEND_CUDA_SCRATCH_H_
#define SANGAM_WORKER_BACKEND_CUDA_SCRATCH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/cuda/lane.h"

namespace sangam {

// Memory for what one operation keeps while it works: the next one writes over it, in the order of
// the computing stream. Grows to the largest that was asked for. Not thread-safe.
class CudaScratch {
 public:
  explicit CudaScratch(CudaLane* lane) : lane_(lane) {}

  // At least `bytes`, aligned to 256; in a rehearsal of the lane's a pointer that is not to be
  // used. Errors: ResourceExhausted, Internal
  absl::StatusOr<void*> Get(int64_t bytes);

  // What MakeRoom will take, in bytes.
  int64_t missing_bytes() const { return wanted_ > buffer_.bytes() ? wanted_ : 0; }
  // As much as a rehearsal asked for. Errors: as Get
  absl::Status MakeRoom() { return Get(wanted_).status(); }

 private:
  CudaLane* lane_;
  DeviceBuffer buffer_;
  int64_t wanted_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_SCRATCH_H_
