#ifndef SANGAM_WORKER_RUNTIME_LANE_MEMORY_H_
#define SANGAM_WORKER_RUNTIME_LANE_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/layers/block.h"

namespace sangam {

struct PreparedJob;

// What one micro-batch in flight of one stage keeps. By block of the stage; nullptr where a block
// needs none.
struct SlotMemory {
  std::vector<std::unique_ptr<BlockState>> states;
  // Input plus the output that a skip connection brings.
  std::vector<std::unique_ptr<BackendMemory>> input_sums;
  // Gradient of the block's output, where it is a sum, or would be overwritten before its use.
  std::vector<std::unique_ptr<BackendMemory>> output_gradients;
};

struct StageMemory {
  std::vector<std::unique_ptr<BlockScratch>> scratch;  // by block of the stage
  std::vector<SlotMemory> slots;
};

// What one lane computes with.
struct LaneMemory {
  std::unique_ptr<Backend> backend;  // outlives the rest
  std::vector<StageMemory> stages;   // by chunk
};

// Memory for a lane of `job` (whose plan, cut and blocks are set), with as many slots of each chunk
// as the lane's program uses.
// Errors: ResourceExhausted  the memory cannot be had
//         Unimplemented      the backend has memory of its own
absl::StatusOr<LaneMemory> BuildLaneMemory(const PreparedJob& job, const std::string& backend,
                                           const std::vector<uint32_t>& slots);

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_LANE_MEMORY_H_
