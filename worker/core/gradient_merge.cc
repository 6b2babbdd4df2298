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

namespace {

// Eight floats, wherever they lie. Written out, because the compiler leaves a plain loop of unknown
// length as it is at -O2, and then a step of many shares spends more time here than in some of its
// products.
using Eight = float __attribute__((vector_size(32), aligned(4), may_alias));

void AddTo(const float* from, size_t count, float* to) {
  size_t e = 0;
  for (; e + 8 <= count; e += 8) {
    *reinterpret_cast<Eight*>(to + e) += *reinterpret_cast<const Eight*>(from + e);
  }
  for (; e < count; ++e) to[e] += from[e];
}

}  // namespace

absl::StatusOr<GradientSum> GradientMerge::AddRight::operator()(GradientSum left,
                                                                const GradientSum& right) const {
  if (left.values.size() != right.values.size()) {
    return absl::InvalidArgumentError(absl::StrCat("gradients of ", left.values.size(), " and of ",
                                                   right.values.size(),
                                                   " elements cannot be added"));
  }
  AddTo(right.values.data(), left.values.size(), left.values.data());
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

absl::StatusOr<std::optional<GradientMerge::Finished>> GradientMerge::Add(ShareSpan span,
                                                                          GradientSum gradient) {
  if (span.empty() || !worker_shares_.Contains(span)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shares ", ToString(span), ": expected some of ", ToString(worker_shares_)));
  }
  const auto first = added_.begin() + (span.begin - worker_shares_.begin);
  const auto end = first + span.size();
  if (const auto twice = std::find(first, end, true); twice != end) {
    return absl::AlreadyExistsError(
        absl::StrCat("share ", span.begin + (twice - first), " was added twice in one step"));
  }
  RETURN_IF_ERROR(tree_.Add(span, std::move(gradient)).status());
  std::fill(first, end, true);
  missing_ -= span.size();
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
