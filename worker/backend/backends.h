#ifndef SANGAM_WORKER_BACKEND_BACKENDS_H_
#define SANGAM_WORKER_BACKEND_BACKENDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/backend/backend.h"

namespace sangam {

// The backends of this build, in alphabetical order.
std::vector<std::string> BackendNames();

// A new backend, for one lane.
// Errors: InvalidArgument  unknown name; lists the known ones
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(absl::string_view name);

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_BACKENDS_H_
