#ifndef SANGAM_COMMON_BASE_MEMORY_BUDGET_H_
#define SANGAM_COMMON_BASE_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"

namespace sangam {

class MemoryBudget;

// Bytes that are taken from a budget; they go back when it ends. Movable.
class MemoryLease {
 public:
  MemoryLease() = default;
  MemoryLease(MemoryLease&& other) noexcept { *this = std::move(other); }
  MemoryLease& operator=(MemoryLease&& other) noexcept {
    std::swap(from_, other.from_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryLease() {
    if (from_ != nullptr) from_->fetch_sub(bytes_, std::memory_order_relaxed);
  }

 private:
  friend class MemoryBudget;
  friend class PlannedMemory;
  MemoryLease(std::shared_ptr<std::atomic<uint64_t>> from, uint64_t bytes)
      : from_(std::move(from)), bytes_(bytes) {}

  // Shared, because what is parked may outlive the budget at the end of a process.
  std::shared_ptr<std::atomic<uint64_t>> from_;
  uint64_t bytes_ = 0;
};

// What a planned job may have in staging, on top of the budget, as long as this lives. A job that
// keeps to its plan always has its bytes: a step needs the gradients of all workers, so a refusal,
// or waiting for room, would be its end. What goes beyond the plan is taken from the budget, where
// it can be refused, and does not touch other jobs. Thread-safe.
class PlannedMemory {
 public:
  ~PlannedMemory() { End(); }
  PlannedMemory(const PlannedMemory&) = delete;
  PlannedMemory& operator=(const PlannedMemory&) = delete;

  // Errors: ResourceExhausted  beyond the plan, and the budget has no room
  absl::StatusOr<MemoryLease> Take(uint64_t bytes);
  // Nothing is planned from now on; what is taken stays so until it goes back.
  void End();

  // Of the plan.
  uint64_t used() const { return used_->load(std::memory_order_relaxed); }
  uint64_t planned() const { return planned_.load(std::memory_order_relaxed); }

 private:
  friend class MemoryBudget;
  PlannedMemory(MemoryBudget* budget, uint64_t planned) : budget_(*budget), planned_(planned) {}

  MemoryBudget& budget_;
  std::atomic<uint64_t> planned_;
  const std::shared_ptr<std::atomic<uint64_t>> used_ = std::make_shared<std::atomic<uint64_t>>(0);
};

// Bytes that a process may hold for its peers at once: messages that are handled, gradients that
// are parked, answers that wait. A number and no allocator: whoever holds bytes takes them here
// first. Thread-safe.
class MemoryBudget {
 public:
  // `counts`: may be nullptr; must outlive the budget.
  explicit MemoryBudget(uint64_t bytes, RefusalCounts* counts = nullptr)
      : bytes_(bytes), counts_(counts) {}
  // REQUIRES: no PlannedMemory is left.
  ~MemoryBudget() = default;
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Errors: ResourceExhausted  there is no room; the message begins with kMemoryBudgetReason
  absl::StatusOr<MemoryLease> Take(uint64_t bytes);
  // For what a job cannot do without: counted, never refused.
  MemoryLease TakeAlways(uint64_t bytes);
  // For one job. The budget must outlive it.
  std::unique_ptr<PlannedMemory> Plan(uint64_t bytes);

  // Told the budget with all that is planned, now and when it changes; one call at a time. Nobody
  // when empty.
  void Observe(std::function<void(uint64_t bytes)> observer);

  uint64_t bytes() const { return bytes_; }
  // Of it, without what is planned.
  uint64_t used() const { return used_->load(std::memory_order_relaxed); }
  uint64_t planned() const;

 private:
  friend class PlannedMemory;
  void AddPlanned(int64_t bytes);

  const uint64_t bytes_;
  RefusalCounts* const counts_;
  const std::shared_ptr<std::atomic<uint64_t>> used_ = std::make_shared<std::atomic<uint64_t>>(0);
  mutable Mutex mutex_;
  uint64_t planned_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void(uint64_t)> observer_ ABSL_GUARDED_BY(mutex_);
};

inline constexpr absl::string_view kMemoryBudgetReason = "MEMORY_BUDGET";

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_MEMORY_BUDGET_H_
