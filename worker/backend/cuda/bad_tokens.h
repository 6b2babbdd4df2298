#ifndef SANGAM_WORKER_BACKEND_CUDA_BAD_TOKENS_H_
#define SANGAM_WORKER_BACKEND_CUDA_BAD_TOKENS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/cuda/lane.h"
#include "worker/backend/cuda/lookup.h"

namespace sangam {

// Tokens that are no rows of their tables: the device finds them, and Synchronize asks it. Not
// thread-safe.
class CudaBadTokens {
 public:
  explicit CudaBadTokens(CudaLane* lane) : lane_(lane) {}

  struct Call {
    unsigned number;
    cuda_kernels::BadToken* found;
  };
  // For a lookup that is about to begin, or to be recorded: all runs of a recording are one call.
  // REQUIRES: CudaLane::Begin.
  absl::StatusOr<Call> Begin();
  // There will be lookups before the next Check, of a recording maybe.
  void Expect() { unchecked_ = true; }
  // For the first one. Errors: ResourceExhausted, Internal
  absl::Status MakeRoom();

  // Waits for the lookups since the last call. Errors: InvalidArgument  the first one that found
  // such a token; names it; then all is as before the first lookup
  absl::Status Check();

 private:
  absl::Status Clear();

  CudaLane* lane_;
  DeviceBuffer on_device_;
  PinnedBuffer on_host_;
  unsigned calls_ = 0;
  bool unchecked_ = false;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_BAD_TOKENS_H_
