#ifndef SANGAM_COMMON_RPC_LIMIT_FLAGS_H_
#define SANGAM_COMMON_RPC_LIMIT_FLAGS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/flags/flags.h"

namespace sangam {

// What a daemon takes upon itself at most; docs/limits.md has all limits, also those that are
// fixed.
struct LimitFlags {
  uint64_t memory_budget = 0;  // bytes; 0: see MemoryBudgetBytes
  uint64_t max_connections = 2048;
  absl::Duration stalled_call_timeout = absl::Seconds(30);
  // Of a coordinator.
  uint64_t max_queued_jobs = 256;
  uint64_t max_queued_jobs_of_one = 100;
  uint64_t max_running_jobs_of_one = 0;  // 0: no limit

  // This must outlive the set.
  void AddServerFlags(FlagSet* flags);
  // Those of a worker, which has no jobs in a queue, and by itself no budget: what comes to it are
  // activations, which the schedule bounds.
  void AddWorkerFlags(FlagSet* flags);

  // As it was given, else a quarter of the memory that this process may use; not less than
  // kLeastMemoryBudget.
  uint64_t MemoryBudgetBytes() const;

 private:
  void AddCommonFlags(FlagSet* flags);
};

// Some messages of the longest kind.
inline constexpr uint64_t kLeastMemoryBudget = uint64_t{32} << 20;

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_LIMIT_FLAGS_H_
