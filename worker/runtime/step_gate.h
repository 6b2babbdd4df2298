#ifndef SANGAM_WORKER_RUNTIME_STEP_GATE_H_
#define SANGAM_WORKER_RUNTIME_STEP_GATE_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>

#include "common/base/mutex.h"

namespace sangam {

// Where the lanes of a run stand still (Assignment.stop_step). Thread-safe.
class StepGate {
 public:
  // From now on nobody passes at this step or a later one; nothing: everybody passes.
  void SetStop(std::optional<uint64_t> step);
  // Everybody passes from now on: the run ends.
  void End();

  // Waits as long as the step may not be begun.
  void Pass(uint64_t step) {
    if (step >= stop_.load(std::memory_order_acquire)) Wait(step);
  }

 private:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  void Wait(uint64_t step);

  std::atomic<uint64_t> stop_{kNever};  // changed under the lock
  Mutex mutex_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_STEP_GATE_H_
