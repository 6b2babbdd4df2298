#include "worker/core/lane_deal.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/plan/batch_cut.h"
#include "proto/plan.pb.h"

namespace sangam {

LaneDeal::LaneDeal(const v1::Plan& plan, uint32_t worker, uint32_t lanes) : lanes_(lanes) {
  const v1::WorkerPlan& self = plan.worker(static_cast<int>(worker));
  cut_.micro_batches = plan.micro_batches();
  cut_.shares = plan.shares();
  shares_ = {self.shares().begin(), self.shares().end()};
  evaluation_part_ = self.evaluation_part();
  evaluation_parts_ = self.evaluation_parts();
}

IndexRange LaneDeal::SharesOf(uint32_t lane) const {
  const IndexRange part = EvenPart(shares_.size(), lanes_, lane);
  return {shares_.begin + part.begin, shares_.begin + part.end};
}

absl::StatusOr<uint32_t> LaneDeal::LaneOfMicroBatch(uint32_t micro_batch) const {
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    const IndexRange shares = SharesOf(lane);
    if (shares.size() == 0) continue;
    const uint64_t begin = cut_.ShareMicroBatches(static_cast<uint32_t>(shares.begin)).begin;
    const uint64_t end = cut_.ShareMicroBatches(static_cast<uint32_t>(shares.end) - 1).end;
    if (begin <= micro_batch && micro_batch < end) return lane;
  }
  return absl::InvalidArgumentError(absl::StrCat("micro_batch: found ", micro_batch,
                                                 ", expected one of the shares [", shares_.begin,
                                                 ",", shares_.end, ")"));
}

absl::StatusOr<uint32_t> LaneDeal::LaneOfChunk(uint32_t chunk) const {
  if (evaluation_parts_ == 0 || chunk % evaluation_parts_ != evaluation_part_) {
    return absl::InvalidArgumentError(absl::StrCat("chunk: found ", chunk,
                                                   ", expected one of part ", evaluation_part_,
                                                   " of ", evaluation_parts_));
  }
  return chunk / evaluation_parts_ % lanes_;
}

}  // namespace sangam
