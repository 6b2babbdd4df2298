#include "common/base/memory_budget.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"

namespace sangam {
namespace {

// Whether `bytes` fit beside what is used, and then they are taken.
bool TryAdd(std::atomic<uint64_t>* used, uint64_t bytes, uint64_t limit) {
  uint64_t before = used->load(std::memory_order_relaxed);
  do {
    if (bytes > limit || before > limit - bytes) return false;
  } while (!used->compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  return true;
}

}  // namespace

void PlannedMemory::End() {
  const uint64_t planned = planned_.exchange(0, std::memory_order_relaxed);
  if (planned > 0) budget_.AddPlanned(-static_cast<int64_t>(planned));
}

absl::StatusOr<MemoryLease> PlannedMemory::Take(uint64_t bytes) {
  if (TryAdd(used_.get(), bytes, planned())) return MemoryLease(used_, bytes);
  return budget_.Take(bytes);
}

absl::StatusOr<MemoryLease> MemoryBudget::Take(uint64_t bytes) {
  if (TryAdd(used_.get(), bytes, bytes_)) return MemoryLease(used_, bytes);
  CountRefusal(counts_, Refusal::kMemoryBudget);
  return absl::ResourceExhaustedError(
      absl::StrCat(kMemoryBudgetReason, ": found ", bytes, " bytes to be held besides ", used(),
                   ", expected at most ", bytes_, " in all; try again later"));
}

MemoryLease MemoryBudget::TakeAlways(uint64_t bytes) {
  used_->fetch_add(bytes, std::memory_order_relaxed);
  return MemoryLease(used_, bytes);
}

std::unique_ptr<PlannedMemory> MemoryBudget::Plan(uint64_t bytes) {
  AddPlanned(static_cast<int64_t>(bytes));
  return std::unique_ptr<PlannedMemory>(new PlannedMemory(this, bytes));
}

void MemoryBudget::AddPlanned(int64_t bytes) {
  MutexLock lock(&mutex_);
  planned_ += static_cast<uint64_t>(bytes);
  if (observer_ != nullptr) observer_(bytes_ + planned_);
}

void MemoryBudget::Observe(std::function<void(uint64_t bytes)> observer) {
  MutexLock lock(&mutex_);
  observer_ = std::move(observer);
  if (observer_ != nullptr) observer_(bytes_ + planned_);
}

uint64_t MemoryBudget::planned() const {
  MutexLock lock(&mutex_);
  return planned_;
}

}  // namespace sangam
