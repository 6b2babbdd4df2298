#ifndef SANGAM_COMMON_RPC_ALARM_TIME_H_
#define SANGAM_COMMON_RPC_ALARM_TIME_H_

#include <grpc/support/time.h>

#include "absl/time/time.h"

namespace sangam {

// When an alarm that is set now should go off, on the steady clock. `delay` is finite.
inline gpr_timespec AlarmTimeAfter(absl::Duration delay) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(delay), GPR_TIMESPAN));
}

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_ALARM_TIME_H_
