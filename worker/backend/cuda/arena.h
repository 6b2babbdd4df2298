#ifndef SANGAM_WORKER_BACKEND_CUDA_ARENA_H_
#define SANGAM_WORKER_BACKEND_CUDA_ARENA_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/cuda/lane.h"

namespace sangam {

// The memory that a backend gives away: in pieces from what was set aside, and beyond that each by
// itself. Pieces that are given back are used again when all of the same reserve have been. Not
// thread-safe.
class CudaArena {
 public:
  explicit CudaArena(CudaLane* lane) : lane_(lane) {}

  // As Backend::Reserve and Allocate.
  absl::Status Reserve(int64_t num_elements);
  absl::StatusOr<std::unique_ptr<BackendMemory>> Allocate(int64_t num_elements);

 private:
  struct Block {
    DeviceBuffer buffer;
    int64_t used_bytes = 0;
    int64_t pieces = 0;  // that are in use
  };
  class Memory;

  absl::StatusOr<std::unique_ptr<Block>> NewBlock(int64_t num_elements);
  absl::Status Clear(Block* block);

  CudaLane* lane_;
  std::vector<std::unique_ptr<Block>> reserves_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_ARENA_H_
