#ifndef SANGAM_WORKER_CORE_LANE_DEAL_H_
#define SANGAM_WORKER_CORE_LANE_DEAL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/plan/batch_cut.h"
#include "proto/plan.pb.h"

namespace sangam {

// How a worker's work is dealt to its lanes. The workers of one pipeline have the same shares,
// evaluation part and number of lanes, so lane i of one deals with lane i of the others only.
// Plain values: outlives the plan that it was made of.
class LaneDeal {
 public:
  // REQUIRES: worker < plan.worker_size(), lanes >= 1.
  LaneDeal(const v1::Plan& plan, uint32_t worker, uint32_t lanes);

  uint32_t lanes() const { return lanes_; }

  // Shares of one lane: consecutive, an even part of the worker's.
  // REQUIRES: lane < lanes().
  IndexRange SharesOf(uint32_t lane) const;

  // The lane of a micro-batch.
  // Errors: InvalidArgument  not one of the worker's; names what was found and expected
  absl::StatusOr<uint32_t> LaneOfMicroBatch(uint32_t micro_batch) const;

  // The lane of a chunk of an evaluation: the worker's chunks are dealt in turn.
  // Errors: InvalidArgument  not one of the worker's; names what was found and expected
  absl::StatusOr<uint32_t> LaneOfChunk(uint32_t chunk) const;

 private:
  BatchCut cut_;  // its micro-batches and shares
  IndexRange shares_;
  uint32_t evaluation_part_ = 0;
  uint32_t evaluation_parts_ = 0;
  uint32_t lanes_ = 1;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_LANE_DEAL_H_
