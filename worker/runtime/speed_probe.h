#ifndef SANGAM_WORKER_RUNTIME_SPEED_PROBE_H_
#define SANGAM_WORKER_RUNTIME_SPEED_PROBE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sangam {

// Floating-point operations per second of matrix products on one thread: the best of as many as fit
// into `duration`, at least two. What coordinators weigh workers by; the noise of a busy machine
// stays out of the best one.
// Errors: as CreateBackend and Backend::Gemm
absl::StatusOr<double> MeasureFlopsPerSecond(absl::string_view backend, int device,
                                             absl::Duration duration);

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_SPEED_PROBE_H_
