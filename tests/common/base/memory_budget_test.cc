#include "common/base/memory_budget.h"

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "common/base/refusal_counts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;

TEST(MemoryBudgetTest, RefusesWhatDoesNotFitAndCountsIt) {
  RefusalCounts counts;
  MemoryBudget budget(100, &counts);
  auto first = budget.Take(60);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto refused = budget.Take(41);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StartsWith(refused.status().message(), "MEMORY_BUDGET: found 41 bytes"))
      << refused.status();
  EXPECT_EQ(counts.Get(Refusal::kMemoryBudget), 1u);
  EXPECT_TRUE(budget.Take(40).ok());
  *first = MemoryLease();
  EXPECT_TRUE(budget.Take(100).ok());
  EXPECT_FALSE(budget.Take(~uint64_t{0}).ok());
  EXPECT_EQ(budget.used(), 0u);
}

TEST(MemoryBudgetTest, ALeaseThatIsMovedGoesBackOnce) {
  MemoryBudget budget(100);
  {
    auto taken = budget.Take(30);
    ASSERT_TRUE(taken.ok());
    const MemoryLease moved = *std::move(taken);
    EXPECT_EQ(budget.used(), 30u);
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(MemoryBudgetTest, WhatAJobNeedsIsCountedAndNotRefused) {
  MemoryBudget budget(10);
  const MemoryLease lease = budget.TakeAlways(50);
  EXPECT_EQ(budget.used(), 50u);
  EXPECT_FALSE(budget.Take(1).ok());
}

TEST(MemoryBudgetTest, APlannedJobHasItsBytesWhateverTheOthersDo) {
  MemoryBudget budget(100);
  const std::unique_ptr<PlannedMemory> quiet = budget.Plan(1000);
  const std::unique_ptr<PlannedMemory> greedy = budget.Plan(50);
  std::vector<MemoryLease> held;
  for (;;) {
    auto taken = greedy->Take(25);
    if (!taken.ok()) break;
    held.push_back(*std::move(taken));
  }
  // Two of its plan, and all of the budget.
  EXPECT_EQ(held.size(), 6u);
  EXPECT_EQ(budget.used(), 100u);
  EXPECT_FALSE(budget.Take(1).ok());
  for (int i = 0; i < 4; ++i) {
    auto taken = quiet->Take(250);
    ASSERT_TRUE(taken.ok()) << taken.status();
    held.push_back(*std::move(taken));
  }
  EXPECT_EQ(quiet->used(), 1000u);
  held.clear();
  EXPECT_EQ(quiet->used() + greedy->used() + budget.used(), 0u);
}

TEST(MemoryBudgetTest, TellsWhatIsPlannedOnTop) {
  MemoryBudget budget(100);
  std::vector<uint64_t> told;
  budget.Observe([&told](uint64_t bytes) { told.push_back(bytes); });
  std::unique_ptr<PlannedMemory> one = budget.Plan(7);
  std::unique_ptr<PlannedMemory> other = budget.Plan(30);
  one.reset();
  EXPECT_EQ(budget.planned(), 30u);
  budget.Observe(nullptr);
  other.reset();
  EXPECT_THAT(told, ElementsAre(100, 107, 137, 130));
}

TEST(MemoryBudgetTest, APlanThatHasEndedLeavesTheBudgetToAll) {
  MemoryBudget budget(100);
  const std::unique_ptr<PlannedMemory> job = budget.Plan(50);
  auto taken = job->Take(50);
  ASSERT_TRUE(taken.ok()) << taken.status();
  job->End();
  EXPECT_EQ(budget.planned(), 0u);
  // From the budget now.
  const auto more = job->Take(100);
  EXPECT_TRUE(more.ok()) << more.status();
  EXPECT_FALSE(job->Take(1).ok());
}

TEST(MemoryBudgetTest, ThreadsNeverHoldMoreThanThereIs) {
  MemoryBudget budget(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget] {
      for (int i = 0; i < 20000; ++i) {
        const auto lease = budget.Take(3);
        if (lease.ok()) {
          EXPECT_LE(budget.used(), 8u);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0u);
}

TEST(RefusalCountsTest, EachHasItsName) {
  RefusalCounts counts;
  counts.Add(Refusal::kQueuedJobs);
  counts.Add(Refusal::kQueuedJobs);
  EXPECT_EQ(counts.Get(Refusal::kQueuedJobs), 2u);
  EXPECT_EQ(counts.Get(Refusal::kConnections), 0u);
  EXPECT_STREQ(RefusalName(Refusal::kMemoryBudget), "memory_budget");
  EXPECT_STREQ(RefusalName(Refusal::kQueuedJobs), "queued_jobs");
  CountRefusal(nullptr, Refusal::kQueuedJobs);
}

}  // namespace
}  // namespace sangam
