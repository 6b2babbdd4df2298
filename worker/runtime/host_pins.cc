#include "worker/runtime/host_pins.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "worker/backend/backend.h"

namespace sangam {

void HostPins::Meet(Backend* backend, const float* host, int64_t num_elements) {
  MutexLock lock(&mutex_);
  const auto [entry, is_new] = pins_.emplace(host, nullptr);
  if (!is_new) return;
  // Pinning changes nothing in the memory itself.
  absl::StatusOr<std::unique_ptr<HostPin>> pin =
      backend->Pin(const_cast<float*>(host), num_elements);  // NOLINT: see above
  if (pin.ok()) {
    entry->second = *std::move(pin);
  } else if (!std::exchange(warned_, true)) {
    LogWarning("host memory cannot be pinned; copies take longer", "status=%s",
               LogValue(pin.status().ToString()));
  }
}

}  // namespace sangam
