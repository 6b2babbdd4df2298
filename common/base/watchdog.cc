#include "common/base/watchdog.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace sangam {

Watchdog::Pulse* Watchdog::Add(std::string name, absl::Duration limit) {
  MutexLock lock(&mutex_);
  pulses_.push_back(std::unique_ptr<Pulse>(new Pulse(std::move(name), limit, &clock_)));
  return pulses_.back().get();
}

std::string Watchdog::Stuck() const {
  std::string stuck;
  MutexLock lock(&mutex_);
  const absl::Duration now = clock_.Steady();
  for (const std::unique_ptr<Pulse>& pulse : pulses_) {
    const absl::Duration silent =
        now - absl::Milliseconds(pulse->at_.load(std::memory_order_relaxed));
    if (silent <= pulse->limit_) continue;
    absl::StrAppend(&stuck, stuck.empty() ? "" : "\n", pulse->name_, ": stuck for ",
                    absl::FormatDuration(absl::Floor(silent, absl::Milliseconds(1))));
  }
  return stuck;
}

}  // namespace sangam
