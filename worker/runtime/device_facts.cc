#include "worker/runtime/device_facts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "worker/backend/backends.h"

namespace sangam {

absl::StatusOr<v1::DeviceFacts> DescribeDevice(absl::string_view backend, int device) {
  ASSIGN_OR_RETURN(const BackendDevice found, DescribeBackend(backend, device));
  v1::DeviceFacts facts;
  facts.set_name(found.name);
  facts.set_memory_bytes(found.memory_bytes);
  facts.set_compute_capability(found.compute_capability);
  facts.set_driver(found.driver);
  facts.set_runtime(found.runtime);
  return facts;
}

bool HasBackend(absl::string_view backend) {
  const std::vector<std::string> names = BackendNames();
  return std::find(names.begin(), names.end(), backend) != names.end();
}

}  // namespace sangam
