#include "common/base/readiness.h"

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace sangam {

void Readiness::Set(absl::string_view reason) {
  MutexLock lock(&mutex_);
  if (state_.reason == reason) return;
  state_.reason = std::string(reason);
  ++state_.revision;
  changed_.SignalAll();
}

Readiness::State Readiness::state() const {
  MutexLock lock(&mutex_);
  return state_;
}

Readiness::State Readiness::WaitForChange(uint64_t seen, absl::Duration timeout) const {
  const absl::Duration until = Clock::Real().Steady() + timeout;
  MutexLock lock(&mutex_);
  for (;;) {
    const absl::Duration left = until - Clock::Real().Steady();
    if (state_.revision != seen || left <= absl::ZeroDuration()) return state_;
    changed_.WaitFor(&mutex_, left);
  }
}

}  // namespace sangam
