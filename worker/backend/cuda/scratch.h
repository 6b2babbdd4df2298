#ifndef SANGAM_WORKER_BACKEND_CUDA_SCRATCH_H_
#define SANGAM_WORKER_BACKEND_CUDA_SCRATCH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/cuda/lane.h"

namespace sangam {

// Memory for what one operation keeps while it works: the next one writes over it, in the order of
// the computing stream. Grows to the largest that was asked for. Not thread-safe.
class CudaScratch {
 public:
  explicit CudaScratch(CudaLane* lane) : lane_(lane) {}

  // At least `bytes`, aligned to 256. Errors: ResourceExhausted, Internal
  absl::StatusOr<void*> Get(int64_t bytes);

 private:
  CudaLane* lane_;
  DeviceBuffer buffer_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_SCRATCH_H_
