#include "worker/runtime/step_gate.h"

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace sangam {

void StepGate::SetStop(std::optional<uint64_t> step) {
  MutexLock lock(&mutex_);
  if (ended_) return;
  stop_.store(step.value_or(kNever), std::memory_order_release);
  changed_.SignalAll();
}

void StepGate::End() {
  MutexLock lock(&mutex_);
  ended_ = true;
  stop_.store(kNever, std::memory_order_release);
  changed_.SignalAll();
}

void StepGate::Wait(uint64_t step) {
  MutexLock lock(&mutex_);
  while (step >= stop_.load(std::memory_order_acquire)) changed_.WaitFor(&mutex_, absl::Hours(1));
}

}  // namespace sangam
