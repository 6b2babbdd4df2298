#ifndef SANGAM_COMMON_BASE_READINESS_H_
#define SANGAM_COMMON_BASE_READINESS_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace sangam {

// Whether a daemon takes work now, and why not: what its health service and /readyz answer. Not
// ready at first: it starts. Thread-safe.
class Readiness {
 public:
  struct State {
    std::string reason;     // why it is not ready, in words; empty: it is
    uint64_t revision = 0;  // rises with each change

    bool ready() const { return reason.empty(); }
  };

  void SetReady() { Set(""); }
  // `reason`: not empty; "draining".
  void SetNotReady(absl::string_view reason) { Set(reason); }

  State state() const;

  // The state once its revision is not `seen` any more, or after `timeout`, changed or not.
  State WaitForChange(uint64_t seen, absl::Duration timeout) const;

 private:
  void Set(absl::string_view reason);

  mutable Mutex mutex_;
  mutable CondVar changed_;
  State state_ ABSL_GUARDED_BY(mutex_) = {"starting", 0};
};

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_READINESS_H_
