#ifndef SANGAM_WORKER_BACKEND_DEVICE_LOST_H_
#define SANGAM_WORKER_BACKEND_DEVICE_LOST_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

// How a backend says that its device is lost to this process for good: whatever job comes next
// would fail as well. A payload, so that it stays with the Status on its way up, whoever adds
// context.
namespace sangam {

namespace device_lost_internal {
constexpr char kPayload[] = "sangam.device_lost";
}  // namespace device_lost_internal

// Internal. `message` names the device's error and what was asked of it.
inline absl::Status DeviceLost(absl::string_view message) {
  absl::Status status = absl::InternalError(message);
  status.SetPayload(device_lost_internal::kPayload, absl::Cord());
  return status;
}

inline bool IsDeviceLost(const absl::Status& status) {
  return status.GetPayload(device_lost_internal::kPayload).has_value();
}

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_DEVICE_LOST_H_
