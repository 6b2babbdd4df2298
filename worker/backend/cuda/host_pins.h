#ifndef SANGAM_WORKER_BACKEND_CUDA_HOST_PINS_H_
#define SANGAM_WORKER_BACKEND_CUDA_HOST_PINS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"

namespace sangam {

// Tells the driver about `bytes` bytes of the host's memory, for all lanes and devices: copies from
// and to them need no detour. Lanes share buffers: the last pin of the same bytes ends it. Bytes
// that the driver knows already from elsewhere stay as they are. Thread-safe. Errors:
// ResourceExhausted, Internal
absl::StatusOr<std::unique_ptr<HostPin>> PinHostMemory(void* host, int64_t bytes);

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_HOST_PINS_H_
