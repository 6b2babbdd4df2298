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

  // The losses of the steps, in order, and the samples that each is the mean over. What to tell
  // people, if anything. A batch of less than half of the samples of the largest one, such as an
  // epoch's last, strays too much to be compared: only whether its loss is finite counts.
  std::optional<std::string> Add(uint64_t step, double loss, uint64_t samples);

 private:
  const bool off_;
  const double factor_;
  const size_t window_;
  uint64_t most_samples_ = 0;
  std::deque<double> losses_;  // finite ones of large batches alone
  std::optional<uint64_t> quiet_until_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_LOSS_ALERT_H_
