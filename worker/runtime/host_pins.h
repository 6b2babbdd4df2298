#ifndef SANGAM_WORKER_RUNTIME_HOST_PINS_H_
#define SANGAM_WORKER_RUNTIME_HOST_PINS_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "worker/backend/backend.h"

namespace sangam {

// The host's buffers that a run copies from and to, pinned when they are first met: each once, by
// whichever lane has it first, until the end of the run. The buffers must live as long.
// Thread-safe.
class HostPins {
 public:
  // Pins the buffer unless it has been met. What cannot be pinned is copied more slowly, which is
  // said once.
  void Meet(Backend* backend, const float* host, int64_t num_elements);

 private:
  Mutex mutex_;
  std::map<const float*, std::unique_ptr<HostPin>> pins_ ABSL_GUARDED_BY(mutex_);
  bool warned_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_HOST_PINS_H_
