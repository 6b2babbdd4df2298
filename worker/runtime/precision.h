#ifndef SANGAM_WORKER_RUNTIME_PRECISION_H_
#define SANGAM_WORKER_RUNTIME_PRECISION_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "worker/backend/precision.h"

namespace sangam {

// What a job's backends are to compute in.
Precision ToPrecision(v1::Precision precision);

// What the backend multiplies by itself on this machine; for the registration.
std::vector<v1::Precision> NativePrecisions(absl::string_view backend, int device = 0);

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_PRECISION_H_
