#include "server/core/scheduler.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using Names = std::vector<std::string>;

ClusterSnapshot Snapshot(const Names& workers, const Names& servers,
                         const std::vector<QueuedJob>& queued) {
  ClusterSnapshot snapshot;
  snapshot.queued = queued;
  for (const std::string& name : workers) snapshot.workers.push_back({name, 0});
  for (const std::string& name : servers) snapshot.servers.push_back({name, 0});
  return snapshot;
}

// The reasons of all waiting jobs, in order; checks that nothing starts.
Names Reasons(const ClusterSnapshot& snapshot) {
  const Decision decision = Decide(snapshot);
  EXPECT_FALSE(decision.start.has_value());
  Names reasons;
  for (const WaitingJob& waiting : decision.waiting) {
    reasons.push_back(absl::StrCat(waiting.job, ": ", waiting.reason));
  }
  return reasons;
}

TEST(SchedulerTest, NothingToDoWithoutJobs) {
  EXPECT_EQ(Reasons(Snapshot({"w1"}, {"s1"}, {})), Names{});
}

TEST(SchedulerTest, StartsTheOldestJobWhenAllAreThere) {
  const Decision decision =
      Decide(Snapshot({"w2", "w1", "w3"}, {"s1"}, {{4, "a", 2, 1}, {5, "b", 1, 1}}));
  ASSERT_TRUE(decision.start.has_value());
  EXPECT_EQ(decision.start->job, 4u);
  EXPECT_EQ(decision.start->workers, (Names{"w1", "w2"}));
  EXPECT_EQ(decision.start->servers, (Names{"s1"}));
}

TEST(SchedulerTest, SaysWhatIsMissing) {
  EXPECT_EQ(Reasons(Snapshot({"w-1"}, {"s-1"}, {{4, "a", 2, 1}})),
            (Names{"4: waiting for 1 of 2 workers (have: w-1)"}));
  EXPECT_EQ(Reasons(Snapshot({"w-1", "w-2"}, {}, {{4, "a", 2, 1}})),
            (Names{"4: waiting for 1 of 1 server (have: none)"}));
  EXPECT_EQ(Reasons(Snapshot({"w-2", "w-1"}, {"s-1"}, {{4, "a", 5, 2}})),
            (Names{"4: waiting for 3 of 5 workers (have: w-1, w-2) and 1 of 2 servers (have: "
                   "s-1)"}));
}

TEST(SchedulerTest, ShowsAtMostEightNames) {
  Names workers;
  for (int i = 10; i < 40; ++i) workers.push_back(absl::StrCat("w", i));
  EXPECT_EQ(Reasons(Snapshot(workers, {"s"}, {{1, "a", 31, 1}})),
            (Names{"1: waiting for 1 of 31 workers (have: w10, w11, w12, w13, w14, w15, w16, w17, "
                   "...)"}));
}

TEST(SchedulerTest, OneJobAtATime) {
  ClusterSnapshot snapshot = Snapshot({"w1", "w2"}, {"s1"}, {{4, "a", 1, 1}, {5, "b", 1, 1}});
  snapshot.running = "job 3 (mnist)";
  EXPECT_EQ(Reasons(snapshot),
            (Names{"4: waiting for job 3 (mnist) to end", "5: waiting behind job 4 (a)"}));
}

TEST(SchedulerTest, ASmallJobDoesNotOvertakeALargeOne) {
  EXPECT_EQ(Reasons(Snapshot({"w1"}, {"s1"}, {{4, "large", 2, 1}, {5, "small", 1, 1}})),
            (Names{"4: waiting for 1 of 2 workers (have: w1)", "5: waiting behind job 4 (large)"}));
}

TEST(SchedulerTest, PrefersServersThatHoldLess) {
  ClusterSnapshot snapshot = Snapshot({"w1"}, {}, {{4, "a", 1, 2}});
  snapshot.servers = {{"s1", 2}, {"s2", 0}, {"s3", 1}};
  EXPECT_EQ(Decide(snapshot).start->servers, (Names{"s2", "s3"}));
}

}  // namespace
}  // namespace sangam
