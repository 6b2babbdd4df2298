#ifndef SANGAM_WORKER_RUNTIME_DEVICE_FACTS_H_
#define SANGAM_WORKER_RUNTIME_DEVICE_FACTS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace sangam {

// What the backend computes on, for the registration; without a name for the CPU.
// Errors: InvalidArgument     unknown backend; lists the known ones
//         FailedPrecondition  the machine has no such device; says why
absl::StatusOr<v1::DeviceFacts> DescribeDevice(absl::string_view backend, int device);

// Whether this program has the backend.
bool HasBackend(absl::string_view backend);

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_DEVICE_FACTS_H_
