#ifndef SANGAM_COMMON_BASE_CLOCK_H_
#define SANGAM_COMMON_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace sangam {

// Source of time, so that tests can bring their own. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // Time since an arbitrary start; never goes back. For leases, deadlines and rates.
  virtual absl::Duration Steady() const = 0;

  // Wall-clock time, for people.
  virtual absl::Time Wall() const = 0;

  // The machine's clocks; lives for ever.
  static const Clock& Real();
};

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_CLOCK_H_
