#include "server/core/step_losses.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/plan/batch_cut.h"
#include "common/plan/span.h"
#include "proto/cluster_service.pb.h"

namespace sangam {
namespace {

constexpr uint64_t kMaxOpenLosses = uint64_t{1} << 20;
constexpr uint64_t kLeastOpenSteps = 64;

}  // namespace

StepLosses::StepLosses(const BatchCut& cut, uint64_t terms_per_sample, uint64_t steps_total,
                       uint64_t steps_done)
    : cut_(cut),
      terms_per_sample_(terms_per_sample),
      steps_total_(steps_total),
      max_open_(std::max(kLeastOpenSteps, kMaxOpenLosses / cut.shares)),
      steps_done_(steps_done) {}

absl::StatusOr<std::vector<StepLosses::CompleteStep>> StepLosses::Add(const v1::StepReport& report,
                                                                      ShareSpan shares) {
  RETURN_IF_ERROR(Check(report, shares), "losses of step %d", report.step());
  std::vector<CompleteStep> complete;
  if (report.step() < steps_done_) return complete;
  OpenStep& open = open_[report.step()];
  if (open.loss_sum.empty()) {
    open.loss_sum.resize(cut_.shares);
    open.known.resize(cut_.shares);
    open.num_missing = cut_.shares;
  }
  for (int i = 0; i < report.loss_sum_size(); ++i) {
    const uint32_t share = report.first_share() + static_cast<uint32_t>(i);
    if (open.known[share]) continue;
    open.known[share] = true;
    open.loss_sum[share] = report.loss_sum(i);
    --open.num_missing;
  }
  while (!open_.empty() && open_.begin()->first == steps_done_ &&
         open_.begin()->second.num_missing == 0) {
    complete.push_back(Sum(steps_done_, open_.begin()->second));
    open_.erase(open_.begin());
    ++steps_done_;
  }
  return complete;
}

absl::Status StepLosses::Check(const v1::StepReport& report, ShareSpan shares) const {
  if (report.step() >= steps_total_) {
    return absl::InvalidArgumentError(absl::StrCat("expected a step below ", steps_total_));
  }
  const uint64_t count = static_cast<uint64_t>(report.loss_sum_size());
  if (count == 0 || static_cast<uint64_t>(report.samples_size()) != count ||
      report.first_share() < shares.begin || report.first_share() + count > shares.end) {
    return absl::InvalidArgumentError(absl::StrCat(
        "found ", count, " losses and ", report.samples_size(), " counts from share ",
        report.first_share(), " on, expected one of each for shares within ", ToString(shares)));
  }
  for (int i = 0; i < report.samples_size(); ++i) {
    const uint32_t share = report.first_share() + static_cast<uint32_t>(i);
    const uint64_t expected = SamplesOf(report.step(), share);
    if (report.samples(i) != expected) {
      return absl::InvalidArgumentError(absl::StrCat(
          "found ", report.samples(i), " samples in share ", share, ", expected ", expected));
    }
  }
  if (report.step() >= steps_done_ + max_open_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "step ", steps_done_, " is not complete, expected at most ", max_open_, " steps after it"));
  }
  return absl::OkStatus();
}

uint64_t StepLosses::SamplesOf(uint64_t step, uint32_t share) const {
  const IndexRange micro = cut_.ShareMicroBatches(share);
  const auto first = static_cast<uint32_t>(micro.begin);
  const auto last = static_cast<uint32_t>(micro.end - 1);
  return cut_.MicroBatch(step, last).end - cut_.MicroBatch(step, first).begin;
}

StepLosses::CompleteStep StepLosses::Sum(uint64_t step, const OpenStep& open) const {
  double sum = 0;
  for (const double loss : open.loss_sum) sum += loss;
  const uint64_t samples = cut_.BatchSamples(step).size();
  return {step, samples, sum / static_cast<double>(samples * terms_per_sample_)};
}

bool StepLosses::Knows(uint32_t share) const {
  const auto open = open_.find(steps_done_);
  return open != open_.end() && share < open->second.known.size() && open->second.known[share];
}

}  // namespace sangam
