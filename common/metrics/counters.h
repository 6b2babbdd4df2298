#ifndef SANGAM_COMMON_METRICS_COUNTERS_H_
#define SANGAM_COMMON_METRICS_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sangam {

// What a lane of a worker spends its time with: label `phase` of sangam_step_phase_seconds_total.
enum class StepPhase { kData, kForward, kLoss, kBackward, kPush, kPull, kWait };
inline constexpr std::array<const char*, 7> kStepPhaseNames = {
    "data", "forward", "loss", "backward", "push", "pull", "wait"};

// What a process counts where it happens, because nobody could see it afterwards; everything else
// is read from where it is when somebody asks. Rising numbers, added to with relaxed order: an
// addition costs some nanoseconds, and no two of the numbers need agree. Thread-safe.
struct Counters {
  template <size_t n>
  using Array = std::array<std::atomic<uint64_t>, n>;

  // Server: of gradients and weights.
  std::atomic<uint64_t> push_bytes{0};
  std::atomic<uint64_t> pull_bytes{0};
  // Frames of an older generation, each of which ends its stream.
  std::atomic<uint64_t> fenced_frames{0};
  // Server: sums of a page that became complete, by the time from their first frame to their last.
  // Not cumulative; the last one: above all of kWaitBounds.
  Array<9> aggregation_waits = {};
  std::atomic<uint64_t> aggregation_wait_us{0};
  // Server that counts a job's votes: steps whose gradient was not finite, and which were skipped.
  std::atomic<uint64_t> skipped_steps{0};

  // Coordinator: checkpoints.
  std::atomic<uint64_t> checkpoints{0};
  std::atomic<uint64_t> checkpoint_us{0};
  std::atomic<uint64_t> checkpoint_bytes{0};            // of the newest one
  std::atomic<uint64_t> checkpoint_last_us{0};          // the newest one's duration
  std::atomic<uint64_t> checkpoint_success_unix_us{0};  // when it was complete
  Array<17> checkpoint_failures = {};                   // by code of the status
  std::atomic<uint64_t> disk_stalls{0};                 // waits for the disk that were far too long
  // When the wait for the disk began that goes on, by the steady clock; 0: none does.
  std::atomic<uint64_t> disk_sync_since_us{0};

  // Worker: microseconds of all lanes.
  Array<kStepPhaseNames.size()> step_phase_us = {};

  // Upper bounds of aggregation_waits, in seconds.
  static constexpr std::array<double, 8> kWaitBounds = {0.0001, 0.001, 0.01, 0.1, 0.5, 1, 5, 30};

  void AddAggregationWait(uint64_t us) {
    size_t bucket = 0;
    while (bucket < kWaitBounds.size() && static_cast<double>(us) > kWaitBounds[bucket] * 1e6) {
      ++bucket;
    }
    Add(&aggregation_waits[bucket], 1);
    Add(&aggregation_wait_us, us);
  }
  void AddPhase(StepPhase phase, uint64_t us) {
    Add(&step_phase_us[static_cast<size_t>(phase)], us);
  }
  static void Add(std::atomic<uint64_t>* counter, uint64_t amount) {
    counter->fetch_add(amount, std::memory_order_relaxed);
  }
  static uint64_t Get(const std::atomic<uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  }
};

// As the log, the process has one.
inline Counters& ProcessCounters() {
  static Counters counters;
  return counters;
}

}  // namespace sangam

#endif  // SANGAM_COMMON_METRICS_COUNTERS_H_
