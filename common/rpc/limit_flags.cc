#include "common/rpc/limit_flags.h"

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "common/base/machine_memory.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

constexpr uint64_t kMostConnections = uint64_t{1} << 20;
constexpr uint64_t kMostJobs = 1'000'000;
// When the system does not say what there is.
constexpr uint64_t kBudgetOfUnknown = uint64_t{1} << 30;

}  // namespace

void LimitFlags::AddServerFlags(FlagSet* flags) {
  flags->AddBytes({"memory_budget", "BYTES",
                   "What it holds for peers at once, on top of the gradients that its jobs are "
                   "planned to park; more is refused. At least 32MiB. Default: a quarter of the "
                   "memory that it may use."},
                  &memory_budget);
  AddCommonFlags(flags);
  flags->AddCount(
      {"max_queued_jobs", "N", "Coordinator: jobs that may wait at once; more are refused."},
      &max_queued_jobs, 1, kMostJobs);
  flags->AddCount(
      {"max_queued_jobs_of_one", "N", "Coordinator: those of one user, when users have names."},
      &max_queued_jobs_of_one, 1, kMostJobs);
  flags->AddCount({"max_running_jobs_of_one", "N",
                   "Coordinator: jobs of one user that run at once, when users have names; the "
                   "others wait. 0: no limit."},
                  &max_running_jobs_of_one, 0, kMostJobs);
}

void LimitFlags::AddWorkerFlags(FlagSet* flags) {
  flags->AddBytes({"memory_budget", "BYTES",
                   "What it holds of other workers' messages at once; beyond it calls are broken "
                   "off. At least 32MiB. Default: no limit but that of the schedule."},
                  &memory_budget);
  AddCommonFlags(flags);
}

void LimitFlags::AddCommonFlags(FlagSet* flags) {
  flags->AddCount({"max_connections", "N",
                   "Connections at once, fewer when it may not open as many files; more are closed "
                   "at once."},
                  &max_connections, 1, kMostConnections);
  flags->AddDuration(
      {"stalled_call_timeout", "TIME",
       "How long a peer may owe the first message of a call, or leave unread what it "
       "is sent; then it is cut off."},
      &stalled_call_timeout, absl::Milliseconds(100), absl::Hours(1));
}

uint64_t LimitFlags::MemoryBudgetBytes() const {
  if (memory_budget > 0) return std::max(kLeastMemoryBudget, memory_budget);
  const uint64_t usable = UsableMemoryBytes();
  return std::max(kLeastMemoryBudget, usable == 0 ? kBudgetOfUnknown : usable / 4);
}

}  // namespace sangam
