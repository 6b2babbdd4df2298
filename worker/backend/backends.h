#ifndef SANGAM_WORKER_BACKEND_BACKENDS_H_
#define SANGAM_WORKER_BACKEND_BACKENDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/backend/backend.h"
#include "worker/backend/precision.h"

namespace sangam {

// The backends of this build, in alphabetical order.
std::vector<std::string> BackendNames();

// A new backend, for one lane.
// Errors: InvalidArgument  unknown name; lists the known ones
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(absl::string_view name,
                                                       Precision precision = Precision::kFp32);

// Whether the backend multiplies numbers of `precision` by itself on this machine. Where it does
// not, it computes the same with binary32 products, no faster; sums may then have another order, so
// that only machines that answer alike give the same bits.
bool IsNative(absl::string_view name, Precision precision);

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_BACKENDS_H_
