#include "server/core/loss_alert.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"

namespace sangam {

LossAlert::LossAlert(const v1::LossAlertSpec& spec)
    : off_(spec.off()), factor_(spec.factor()), window_(spec.window()) {}

std::optional<std::string> LossAlert::Add(uint64_t step, double loss, uint64_t samples) {
  if (off_) return std::nullopt;
  most_samples_ = std::max(most_samples_, samples);
  const bool small = samples < most_samples_ - most_samples_ / 2;
  std::optional<std::string> alert;
  if (!std::isfinite(loss)) {
    alert = absl::StrCat("step ", step, ": the loss is not finite (", loss, ")");
  } else if (!small) {
    // The first steps of a job are no measure: a tenth of a window must be there.
    if (!losses_.empty() && losses_.size() * 10 >= window_) {
      const double mean = std::accumulate(losses_.begin(), losses_.end(), 0.0) /
                          static_cast<double>(losses_.size());
      if (mean > 0 && loss > factor_ * mean) {
        alert =
            absl::StrCat("step ", step, ": the loss is ", loss, ", ", loss / mean,
                         " times the mean of the ", losses_.size(), " steps before (", mean, ")");
      }
    }
    losses_.push_back(loss);
    if (losses_.size() > window_) losses_.pop_front();
  }
  if (!alert.has_value() || (quiet_until_.has_value() && step < *quiet_until_)) return std::nullopt;
  quiet_until_ = step + window_;
  return alert;
}

}  // namespace sangam
