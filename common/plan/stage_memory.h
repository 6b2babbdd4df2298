#ifndef SANGAM_COMMON_PLAN_STAGE_MEMORY_H_
#define SANGAM_COMMON_PLAN_STAGE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/numeric/int128.h"
#include "common/plan/worker_memory.h"
#include "proto/model.pb.h"

namespace sangam {

// What MemoryOfStages says of one stage alone, prepared so that it costs little to ask for many
// stages: the time of an answer grows only with the tied blocks and the skip connections that begin
// or end within the stage.
class StageMemory {
 public:
  // `splits_backward` as in WorkerLoad.
  StageMemory(const v1::ModelLayout& layout, const v1::ModelSpec& model, bool splits_backward);

  // In bytes, at most 2^64 - 1.
  struct Bytes {
    uint64_t total = 0;
    // All but the messages. Unlike these it is never less for a stage that holds this one.
    uint64_t within = 0;
  };

  // Of the blocks [first, end) as the worker's stage `chunk`.
  // REQUIRES: they are the layout's; chunk < load.slots.size(); load.splits_backward is what the
  //           constructor was told.
  Bytes Of(uint32_t first, uint32_t end, uint32_t chunk, const WorkerLoad& load) const;

 private:
  // Sums over the blocks [0, b), per sample where a sample matters.
  struct Sums {
    absl::uint128 weights;   // of own segments
    absl::uint128 uses;      // of segments, once for each use
    absl::uint128 per_slot;  // activations
    absl::uint128 once;
  };
  // A block that uses parameters of an earlier one.
  struct TiedUse {
    uint32_t block = 0;
    uint32_t before = 0;  // the last block in front that holds the same parameters
    uint64_t bytes = 0;
  };
  // The other end of a skip connection and what crosses.
  struct SkipEnd {
    uint32_t block = 0;
    uint32_t other = 0;
    uint64_t bytes = 0;  // of one sample
  };

  uint64_t WeightBytes(uint32_t first, uint32_t end) const;
  uint64_t MessageBytes(uint32_t first, uint32_t end) const;

  uint32_t blocks_ = 0;
  uint64_t input_bytes_ = 0;  // of one sample, as are the labels
  uint64_t label_bytes_ = 0;
  std::vector<Sums> before_;            // value b: of the blocks [0, b)
  std::vector<uint64_t> output_bytes_;  // of one sample, by block
  // By block.
  std::vector<TiedUse> tied_;
  std::vector<SkipEnd> readers_;
  std::vector<SkipEnd> sources_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_STAGE_MEMORY_H_
