#ifndef SANGAM_SERVER_CORE_LOSS_ALERT_H_
#define SANGAM_SERVER_CORE_LOSS_ALERT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "proto/job.pb.h"

namespace sangam {

// Sees when the loss of a job runs away: a step's loss is not finite, or exceeds the mean of the
// last steps by a factor. Says so at most once in a window of steps.
//
// Pure and not thread-safe. Keeps the losses of one window.
class LossAlert {
 public:
  // REQUIRES: factor and window are set, unless it is off.
  explicit LossAlert(const v1::LossAlertSpec& spec);

  // The losses of the steps, in order. What to tell people, if anything.
  std::optional<std::string> Add(uint64_t step, double loss);

 private:
  const bool off_;
  const double factor_;
  const size_t window_;
  std::deque<double> losses_;  // finite ones alone
  std::optional<uint64_t> quiet_until_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_LOSS_ALERT_H_
