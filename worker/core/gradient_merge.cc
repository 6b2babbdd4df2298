#include "worker/core/gradient_merge.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/plan/span.h"

namespace sangam {

absl::StatusOr<GradientSum> GradientMerge::AddRight::operator()(GradientSum left,
                                                                const GradientSum& right) const {
  if (left.values.size() != right.values.size()) {
    return absl::InvalidArgumentError(absl::StrCat("gradients of ", left.values.size(), " and of ",
                                                   right.values.size(),
                                                   " elements cannot be added"));
  }
  float* __restrict to = left.values.data();
  const float* __restrict from = right.values.data();
  const size_t count = left.values.size();
  for (size_t e = 0; e < count; ++e) to[e] += from[e];
  left.samples += right.samples;
  return left;
}

GradientMerge::GradientMerge(ShareSpan worker_shares, uint32_t shares)
    : worker_shares_(worker_shares),
      maximal_(MaximalSpans(worker_shares, shares)),
      tree_(shares, AddRight()),
      added_(worker_shares.size(), false),
      missing_(worker_shares.size()) {
  SANGAM_CHECK(!worker_shares.empty());
}

absl::StatusOr<std::optional<GradientMerge::Finished>> GradientMerge::Add(uint32_t share,
                                                                          GradientSum gradient) {
  const ShareSpan span{share, share + 1};
  if (!worker_shares_.Contains(span)) {
    return absl::InvalidArgumentError(
        absl::StrCat("share ", share, ": expected one of ", ToString(worker_shares_)));
  }
  const uint32_t index = share - worker_shares_.begin;
  if (added_[index]) {
    return absl::AlreadyExistsError(absl::StrCat("share ", share, " was added twice in one step"));
  }
  RETURN_IF_ERROR(tree_.Add(span, std::move(gradient)).status());
  added_[index] = true;
  --missing_;
  const bool last = missing_ == 0;
  if (last) {
    std::fill(added_.begin(), added_.end(), false);
    missing_ = worker_shares_.size();
  }
  const auto maximal = std::find_if(maximal_.begin(), maximal_.end(),
                                    [span](ShareSpan node) { return node.Contains(span); });
  std::optional<GradientSum> sum = tree_.Take(*maximal);
  if (!sum.has_value()) return std::nullopt;
  return Finished{*maximal, *std::move(sum), last};
}

}  // namespace sangam
