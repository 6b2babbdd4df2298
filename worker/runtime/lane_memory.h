#ifndef SANGAM_WORKER_RUNTIME_LANE_MEMORY_H_
#define SANGAM_WORKER_RUNTIME_LANE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/memory_source.h"
#include "worker/core/flow_tag.h"
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
  // The inputs of micro-batches that are computed together; nullptr where none are.
  std::unique_ptr<BackendMemory> group_inputs;
};

struct StageMemory {
  std::vector<std::unique_ptr<BlockScratch>> scratch;  // by block of the stage
  std::vector<SlotMemory> slots;
};

// Places in a device's memory that take turns, so that a copy from or to one of them goes on beside
// the use of another.
class TransferRing {
 public:
  struct Place {
    std::unique_ptr<BackendMemory> memory;
    // When what was last asked for there is done; nullptr: nothing was.
    std::shared_ptr<const BackendEvent> free_after;
  };

  // Errors: as MemorySource::Allocate
  static absl::StatusOr<TransferRing> Allocate(const MemorySource& source, int64_t elements,
                                               size_t places);
  // REQUIRES: it was allocated with at least one place.
  Place* Next();

 private:
  std::vector<Place> places_;
  size_t next_ = 0;
};

// What a lane with a device takes besides: where tensors and gradients are on their way from and to
// the host.
struct DeviceMemory {
  using Flow = std::pair<uint32_t, FlowDirection>;  // boundary
  using Use = std::pair<uint32_t, uint32_t>;        // segment, use
  struct Slot {
    TransferRing inputs;  // where the first block is
    std::map<Flow, TransferRing> arrivals;
  };
  std::vector<std::vector<Slot>> slots;  // by chunk and slot
  std::map<Flow, TransferRing> departures;
  std::map<Use, TransferRing> gradients;
  // The worker's weights, by segment: with the first lane, for all of them.
  std::map<uint32_t, std::unique_ptr<BackendMemory>> weights;
};

// What one lane computes with.
struct LaneMemory {
  std::unique_ptr<Backend> backend;      // outlives the rest
  std::unique_ptr<DeviceMemory> device;  // nullptr where the host's memory is the backend's
  std::vector<StageMemory> stages;       // by chunk
};

struct LaneMemoryOptions {
  std::string backend = "cpu";
  int device = 0;
  uint32_t lane = 0;
  uint32_t lanes = 1;  // of the worker
  // Of each chunk: as many as the lane's program uses.
  std::vector<uint32_t> slots;
};

// Memory for a lane of `job` (whose plan, cut and blocks are set). On a device it is one piece,
// whose size is counted first.
// Errors: ResourceExhausted  the memory cannot be had; on a device it says how much for what
//         others             as CreateBackend
absl::StatusOr<LaneMemory> BuildLaneMemory(const PreparedJob& job,
                                           const LaneMemoryOptions& options);

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_LANE_MEMORY_H_
