#ifndef SANGAM_SERVER_CORE_STEP_LOSSES_H_
#define SANGAM_SERVER_CORE_STEP_LOSSES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/batch_cut.h"
#include "common/plan/span.h"
#include "proto/cluster_service.pb.h"

namespace sangam {

// Puts the losses that the workers report for their shares together into one loss for each step.
// The sum runs over the shares in their order, in double, so it does not depend on who computed
// them or who reported first.
//
// Pure and not thread-safe. Bounded: workers may be apart by so many steps that at most 2^20 losses
// wait (at least 64 steps).
class StepLosses {
 public:
  struct CompleteStep {
    uint64_t step = 0;
    uint64_t samples = 0;
    double loss = 0;  // mean over the terms of the samples
  };

  // `terms_per_sample`: terms of the loss, as in ModelLayout. `steps_done`: steps below it are
  // complete already.
  StepLosses(const BatchCut& cut, uint64_t terms_per_sample, uint64_t steps_total,
             uint64_t steps_done = 0);

  // Adds what a worker that computes `shares` reported; returns the steps that are complete now, in
  // order. What is already known changes nothing.
  // Errors: InvalidArgument    the report does not fit the cut: step, shares or samples
  //         ResourceExhausted  this step is too far ahead of one that is not complete
  absl::StatusOr<std::vector<CompleteStep>> Add(const v1::StepReport& report, ShareSpan shares);

  // Whether a share has been reported of the first step that is not complete.
  bool Knows(uint32_t share) const;
  // All steps below this one are complete.
  uint64_t steps_done() const { return steps_done_; }
  bool complete() const { return steps_done_ == steps_total_; }
  size_t num_open() const { return open_.size(); }

 private:
  struct OpenStep {
    std::vector<double> loss_sum;  // for each share
    std::vector<bool> known;
    uint32_t num_missing = 0;
  };

  absl::Status Check(const v1::StepReport& report, ShareSpan shares) const;
  uint64_t SamplesOf(uint64_t step, uint32_t share) const;
  CompleteStep Sum(uint64_t step, const OpenStep& open) const;

  const BatchCut cut_;
  const uint64_t terms_per_sample_;
  const uint64_t steps_total_;
  const uint64_t max_open_;
  uint64_t steps_done_;
  std::map<uint64_t, OpenStep> open_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_STEP_LOSSES_H_
