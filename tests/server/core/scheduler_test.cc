#include "server/core/scheduler.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

using Names = std::vector<std::string>;

ClusterSnapshot Snapshot(const Names& workers, const Names& servers,
                         const std::vector<QueuedJob>& queued) {
  ClusterSnapshot snapshot;
  snapshot.queued = queued;
  for (const std::string& name : workers) snapshot.workers.push_back({name, 0, 0});
  for (const std::string& name : servers) snapshot.servers.push_back({name, 0, 0});
  return snapshot;
}

// The reasons of all waiting jobs, in order; checks that nothing starts.
Names Reasons(const ClusterSnapshot& snapshot) {
  const Decision decision = Decide(snapshot);
  EXPECT_FALSE(decision.start.has_value());
  EXPECT_FALSE(decision.impossible.has_value());
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

// The job that starts, with its daemons: "5: w4 on s1"; empty when none does.
std::string Started(const ClusterSnapshot& snapshot) {
  const Decision decision = Decide(snapshot);
  if (!decision.start.has_value()) return "";
  return absl::StrCat(decision.start->job, ": ", absl::StrJoin(decision.start->workers, " "),
                      " on ", absl::StrJoin(decision.start->servers, " "));
}

TEST(SchedulerTest, JobsRunBesideOneAnotherOnTheWorkersThatAreFree) {
  ClusterSnapshot snapshot = Snapshot({"w1", "w2", "w3"}, {"s1"}, {{4, "a", 2, 1}, {5, "b", 1, 1}});
  snapshot.running = {{3, "mnist", 0, {"w2"}, {{"s1", 10}}}};
  EXPECT_EQ(Started(snapshot), "4: w1 w3 on s1");
  snapshot.running.push_back({4, "a", 0, {"w1", "w3"}, {{"s1", 10}}});
  snapshot.queued.erase(snapshot.queued.begin());
  EXPECT_EQ(Reasons(snapshot),
            (Names{"5: waiting for 1 of 1 worker, busy with job 3 (mnist), job 4 (a)"}));
}

TEST(SchedulerTest, HigherPriorityStandsInFront) {
  ClusterSnapshot snapshot =
      Snapshot({"w1"}, {"s1"}, {{4, "old", 1, 1, 0}, {5, "b", 1, 1, 7}, {6, "c", 1, 1, 7}});
  EXPECT_EQ(Started(snapshot), "5: w1 on s1");
  snapshot.queued[0].priority = 8;
  EXPECT_EQ(Started(snapshot), "4: w1 on s1");
  snapshot.queued[0].priority = -1;
  snapshot.running = {{3, "r", -5, {"w1"}, {{"s1", 0}}}};
  EXPECT_EQ(Reasons(snapshot)[0], "5: waiting for 1 of 1 worker, busy with job 3 (r)");
  EXPECT_EQ(Reasons(snapshot)[2], "4: waiting for 1 of 1 worker, busy with job 3 (r)");
}

TEST(SchedulerTest, ASmallJobDoesNotTakeWorkersThatALargeOneWaitsFor) {
  ClusterSnapshot snapshot =
      Snapshot({"w1", "w2", "w3"}, {"s1"}, {{4, "large", 3, 1}, {5, "small", 1, 1}});
  snapshot.running = {{3, "r", 0, {"w1"}, {{"s1", 0}}}};
  EXPECT_EQ(Reasons(snapshot), (Names{"4: waiting for 1 of 3 workers, busy with job 3 (r)",
                                      "5: waiting behind job 4 (large)"}));
}

TEST(SchedulerTest, ASmallJobTakesAWorkerThatTheLargeOneHasNoUseFor) {
  // When job 3 has ended three workers are free, whatever job 5 does on the fourth.
  ClusterSnapshot snapshot = Snapshot({"w1", "w2", "w3", "w4"}, {"s1"},
                                      {{4, "large", 3, 1}, {5, "small", 1, 1}, {6, "next", 1, 1}});
  snapshot.running = {{3, "r", 0, {"w1", "w2"}, {{"s1", 0}}}};
  EXPECT_EQ(Started(snapshot), "5: w3 on s1");
  // The same again would keep the large one waiting.
  snapshot.running.push_back({5, "small", 0, {"w3"}, {{"s1", 0}}});
  snapshot.queued.erase(snapshot.queued.begin() + 1);
  EXPECT_EQ(Reasons(snapshot)[1], "6: waiting behind job 4 (large)");
  // A job that came behind, but had started before, counts as little in front as the small one.
  snapshot.running = {{3, "r", 0, {"w1", "w2"}, {{"s1", 0}}}};
  snapshot.queued[0].priority = 1;
  EXPECT_EQ(Reasons(snapshot)[1], "6: waiting behind job 4 (large)");
}

TEST(SchedulerTest, AJobForWhichDaemonsAreMissingHoldsBackNobody) {
  ClusterSnapshot snapshot = Snapshot({"w1"}, {"s1"}, {{4, "large", 2, 1}, {5, "small", 1, 1}});
  EXPECT_EQ(Started(snapshot), "5: w1 on s1");
}

TEST(SchedulerTest, MemoryOfRunningJobsIsWaitedFor) {
  ClusterSnapshot snapshot = Snapshot({"w1", "w2", "w3"}, {}, {{4, "big", 1, 2, 0, 60}});
  snapshot.servers = {{"s1", 1, 100}, {"s2", 1, 100}};
  snapshot.running = {{3, "r", 0, {"w1"}, {{"s1", 40}, {"s2", 41}}}};
  EXPECT_EQ(Reasons(snapshot),
            (Names{"4: waiting for memory of 1 of 2 servers: needs 60 bytes on each; s2 has 59 of "
                   "100 left, the rest is of running jobs"}));
  // One without a limit does as well.
  snapshot.servers.push_back({"s3", 5, 0});
  EXPECT_EQ(Started(snapshot), "4: w2 on s1 s3");
}

TEST(SchedulerTest, ASmallJobDoesNotTakeTheMemoryThatALargeOneWaitsFor) {
  ClusterSnapshot snapshot =
      Snapshot({"w1", "w2", "w3"}, {}, {{4, "big", 1, 1, 0, 80}, {5, "small", 1, 1, 0, 30}});
  snapshot.servers = {{"s1", 1, 100}};
  snapshot.running = {{3, "r", 0, {"w1"}, {{"s1", 50}}}};
  EXPECT_EQ(Reasons(snapshot)[1], "5: waiting behind job 4 (big)");
  snapshot.queued[1].server_bytes = 20;
  EXPECT_EQ(Started(snapshot), "5: w2 on s1");
}

TEST(SchedulerTest, WhatNoServerCanHoldIsImpossible) {
  ClusterSnapshot snapshot = Snapshot({}, {}, {{4, "big", 1, 2, 0, 101}});
  snapshot.servers = {{"s1", 0, 0}, {"s2", 0, 100}};
  const Decision decision = Decide(snapshot);
  ASSERT_TRUE(decision.impossible.has_value());
  EXPECT_EQ(decision.impossible->job, 4u);
  EXPECT_EQ(decision.impossible->reason,
            "server s2 would hold 101 bytes of weights and optimizer state, its limit is 100; ask "
            "for more servers (resources.servers) or raise --memory_limit");
  snapshot.servers = {{"s2", 0, 100}};
  EXPECT_EQ(Reasons(snapshot)[0],
            "4: waiting for 1 of 1 worker (have: none) and 1 of 2 servers (have: s2)");
}

TEST(SchedulerTest, LackingDaemonsAreCounted) {
  EXPECT_EQ(LackingDaemons({0, "a", 5, 2}, {{"w2", 0, 0}, {"w1", 0, 0}}, {}),
            (Names{"needs 5 workers, cluster has 2 (w1, w2)", "needs 2 servers, cluster has 0"}));
  EXPECT_EQ(LackingDaemons({0, "a", 1, 1}, {{"w1", 0, 0}}, {{"s1", 0, 0}}), Names{});
}

QueuedJob Bf16Job(uint64_t id, uint32_t workers) {
  QueuedJob job{id, "b", workers, 1};
  job.precision = v1::BF16;
  return job;
}

void MultiplyBf16(CandidateDaemon* worker) { worker->native = {v1::FP32, v1::BF16}; }

// "c1" and "c2" are CPUs, "g1", "g2" and "g3" GPUs, of which the last is another one.
ClusterSnapshot MixedCluster(const std::vector<QueuedJob>& queued) {
  ClusterSnapshot snapshot = Snapshot({"c1", "c2", "g1", "g2", "g3"}, {"s1"}, queued);
  for (CandidateDaemon& worker : snapshot.workers) {
    worker.backend = worker.name[0] == 'g' ? "cuda" : "cpu";
    if (worker.name[0] == 'g') worker.device = worker.name == "g3" ? "NVIDIA L4" : "NVIDIA H200";
  }
  return snapshot;
}

TEST(SchedulerTest, WorkersOfAJobInBf16AllMultiplyItOrAllDoNot) {
  ClusterSnapshot snapshot = Snapshot({"w1", "w2", "w3", "w4"}, {"s1"}, {Bf16Job(4, 2)});
  for (CandidateDaemon& worker : snapshot.workers) worker.backend = "cpu";
  EXPECT_EQ(Started(snapshot), "4: w1 w2 on s1");
  // The faster ones when there are enough, else others.
  MultiplyBf16(&snapshot.workers[1]);
  EXPECT_EQ(Started(snapshot), "4: w1 w3 on s1");
  MultiplyBf16(&snapshot.workers[3]);
  EXPECT_EQ(Started(snapshot), "4: w2 w4 on s1");
  snapshot.queued = {Bf16Job(4, 1)};
  EXPECT_EQ(Started(snapshot), "4: w2 on s1");
  // A job in FP32 runs anywhere, and one in TF32, which none of them multiplies.
  snapshot.queued = {{4, "f", 3, 1}};
  EXPECT_EQ(Started(snapshot), "4: w1 w2 w3 on s1");
  snapshot.queued[0].precision = v1::TF32;
  EXPECT_EQ(Started(snapshot), "4: w1 w2 w3 on s1");
  snapshot.queued = {Bf16Job(4, 3)};
  EXPECT_EQ(Reasons(snapshot), (Names{"4: waiting for 1 of 3 workers of one kind (have: 2 x cpu "
                                      "(native BF16), 2 x cpu)"}));
  EXPECT_EQ(LackingDaemons(snapshot.queued[0], snapshot.workers, snapshot.servers),
            (Names{"needs 3 workers of one kind, cluster has 2 x cpu (native BF16), 2 x cpu"}));
  EXPECT_EQ(LackingDaemons(Bf16Job(4, 2), snapshot.workers, snapshot.servers), Names{});
}

TEST(SchedulerTest, AJobInBf16WaitsForBusyWorkersOfItsKindAndIsNotKeptFromThem) {
  ClusterSnapshot snapshot =
      Snapshot({"w1", "w2", "w3", "w4"}, {"s1"}, {Bf16Job(4, 3), {5, "small", 1, 1}});
  for (int w : {0, 1, 2}) MultiplyBf16(&snapshot.workers[w]);
  snapshot.running = {{3, "r", 0, {"w1", "w4"}, {{"s1", 0}}}};
  EXPECT_EQ(Reasons(snapshot), (Names{"4: waiting for 1 of 3 workers of one kind, busy with job 3 "
                                      "(r)",
                                      "5: waiting behind job 4 (b)"}));
  // Of w4 job 4 has no use.
  snapshot.running = {{3, "r", 0, {"w1", "w2", "w3"}, {{"s1", 0}}}};
  EXPECT_EQ(Started(snapshot), "5: w4 on s1");
}

TEST(SchedulerTest, WorkersOfAJobHaveOneBackendAndOneDevice) {
  EXPECT_EQ(Started(MixedCluster({{4, "a", 2, 1}})), "4: g1 g2 on s1");
  EXPECT_EQ(Started(MixedCluster({{4, "a", 1, 1}})), "4: g1 on s1");
  // The first kind that can start the job now.
  ClusterSnapshot snapshot = MixedCluster({{4, "a", 2, 1}});
  snapshot.running = {{3, "r", 0, {"g2"}, {{"s1", 0}}}};
  EXPECT_EQ(Started(snapshot), "4: c1 c2 on s1");
  snapshot.queued[0].workers = 3;
  EXPECT_EQ(Reasons(snapshot), (Names{"4: waiting for 1 of 3 workers of one kind (have: 2 x cuda "
                                      "(NVIDIA H200), 1 x cuda (NVIDIA L4), 2 x cpu)"}));
  EXPECT_EQ(LackingDaemons(snapshot.queued[0], snapshot.workers, snapshot.servers),
            (Names{"needs 3 workers of one kind, cluster has 2 x cuda (NVIDIA H200), 1 x cuda "
                   "(NVIDIA L4), 2 x cpu"}));
}

// Kernels sum in orders of their own.
TEST(SchedulerTest, CpusWithOtherKernelsShareNoJob) {
  ClusterSnapshot snapshot = Snapshot({"w1", "w2", "w3"}, {"s1"}, {{4, "a", 2, 1}});
  for (CandidateDaemon& worker : snapshot.workers) worker.backend = "cpu";
  for (size_t w : {0, 1, 2}) snapshot.workers[w].device = w == 1 ? "AVX512" : "AVX2";
  EXPECT_EQ(Started(snapshot), "4: w1 w3 on s1");
  EXPECT_EQ(WorkerKind(snapshot.workers[1], v1::FP32), "cpu (AVX512)");
  snapshot.queued[0].workers = 3;
  EXPECT_EQ(Reasons(snapshot), (Names{"4: waiting for 1 of 3 workers of one kind (have: 2 x cpu "
                                      "(AVX2), 1 x cpu (AVX512))"}));
  snapshot.queued[0].workers = 1;
  snapshot.queued[0].kind = "cpu (AVX512)";
  EXPECT_EQ(Started(snapshot), "4: w2 on s1");
  // Of a time when the kernels were not told.
  snapshot.queued[0].kind = "cpu";
  EXPECT_EQ(Started(snapshot), "4: w1 on s1");
  MultiplyBf16(&snapshot.workers[1]);
  EXPECT_EQ(WorkerKind(snapshot.workers[1], v1::BF16), "cpu (AVX512, native BF16)");
  snapshot.queued[0].precision = v1::BF16;
  snapshot.queued[0].kind = "cpu (native BF16)";
  EXPECT_EQ(Started(snapshot), "4: w2 on s1");
}

TEST(SchedulerTest, KindsThatMultiplyThePrecisionComeFirst) {
  ClusterSnapshot snapshot = MixedCluster({Bf16Job(4, 1)});
  MultiplyBf16(&snapshot.workers[1]);
  EXPECT_EQ(Started(snapshot), "4: c2 on s1");
  snapshot.workers[4].native = {v1::BF16, v1::TF32};
  EXPECT_EQ(Started(snapshot), "4: g3 on s1");
  snapshot.queued[0].precision = v1::TF32;
  EXPECT_EQ(Started(snapshot), "4: g3 on s1");
}

TEST(SchedulerTest, AJobMayAskForABackend) {
  ClusterSnapshot snapshot = MixedCluster({{4, "a", 2, 1}});
  snapshot.queued[0].backend = "cpu";
  EXPECT_EQ(Started(snapshot), "4: c1 c2 on s1");
  // It does not fall back to another one.
  snapshot.running = {{3, "r", 0, {"c2"}, {{"s1", 0}}}};
  EXPECT_EQ(Reasons(snapshot), (Names{"4: waiting for 1 of 2 cpu workers, busy with job 3 (r)"}));
  snapshot.queued[0].workers = 3;
  EXPECT_EQ(LackingDaemons(snapshot.queued[0], snapshot.workers, snapshot.servers),
            (Names{"needs 3 cpu workers, cluster has 2 x cuda (NVIDIA H200), 1 x cuda (NVIDIA "
                   "L4), 2 x cpu"}));
  snapshot.queued[0].backend = "cuda";
  EXPECT_EQ(Reasons(snapshot),
            (Names{"4: waiting for 1 of 3 cuda workers of one kind (have: 2 x cuda (NVIDIA H200), "
                   "1 x cuda (NVIDIA L4), 2 x cpu)"}));
  // With the kind that is counted as busy it could start one day.
  snapshot.queued[0].workers = 2;
  snapshot.running = {{3, "r", 0, {"g1", "g2"}, {{"s1", 0}}}};
  EXPECT_EQ(Reasons(snapshot),
            (Names{"4: waiting for 2 of 2 cuda workers of one kind, busy with job 3 (r)"}));
}

TEST(SchedulerTest, AJobLeavesAKindToTheOneInFrontThatWaitsForIt) {
  ClusterSnapshot snapshot = MixedCluster({{4, "front", 2, 1}, {5, "small", 1, 1}});
  snapshot.queued[0].backend = "cuda";
  snapshot.running = {{3, "r", 0, {"g2"}, {{"s1", 0}}}};
  EXPECT_EQ(Started(snapshot), "5: g3 on s1");
  snapshot.running[0].workers = {"g2", "g3"};
  EXPECT_EQ(Started(snapshot), "5: c1 on s1");
  snapshot.running[0].workers = {"g2", "g3", "c1", "c2"};
  EXPECT_EQ(Reasons(snapshot)[1], "5: waiting behind job 4 (front)");
}

TEST(SchedulerTest, WhoHasAsManyJobsAsHeMayWaitsForTheirEndAndHoldsBackNobody) {
  QueuedJob large{5, "large", 3, 1};
  QueuedJob small{6, "small", 1, 1};
  large.owner = "ann";
  small.owner = "bob";
  ClusterSnapshot snapshot = Snapshot({"w1", "w2", "w3", "w4"}, {"s1"}, {large, small});
  snapshot.running = {{3, "r", 0, {"w1"}, {{"s1", 0}}, "ann"}};
  // It starts on what is free.
  EXPECT_EQ(Started(snapshot), "5: w2 w3 w4 on s1");
  snapshot.max_running_of_one = 2;
  EXPECT_EQ(Started(snapshot), "5: w2 w3 w4 on s1");
  snapshot.max_running_of_one = 1;
  // The other one takes of what the first would need.
  EXPECT_EQ(Started(snapshot), "6: w2 on s1");
  snapshot.queued.pop_back();
  EXPECT_EQ(Reasons(snapshot), (Names{"5: waiting for the end of a job of \"ann\": 1 of them run "
                                      "(job 3 (r)), the limit is 1"}));
  // Who has no name is nobody in particular.
  snapshot.queued[0].owner = snapshot.running[0].owner = "";
  EXPECT_EQ(Started(snapshot), "5: w2 w3 w4 on s1");
}

TEST(SchedulerTest, LikelyWorkersAreThoseOfTheKindThatHasEnough) {
  const ClusterSnapshot snapshot = MixedCluster({});
  EXPECT_EQ(LikelyWorkers({0, "a", 2, 1}, snapshot.workers), (Names{"g1", "g2"}));
  EXPECT_EQ(LikelyWorkers({0, "a", 9, 1}, snapshot.workers), (Names{"g1", "g2"}));
  QueuedJob job{0, "a", 1, 1};
  job.backend = "cpu";
  EXPECT_EQ(LikelyWorkers(job, snapshot.workers), (Names{"c1"}));
  job.backend = "other";
  EXPECT_EQ(LikelyWorkers(job, snapshot.workers), Names{});
}

// Random arrivals and ends: nobody waits for one that stood behind him and started later, and when
// all jobs are of a kind that the cluster can run, all of them run.
TEST(SchedulerTest, NobodyStarves) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    ClusterSnapshot snapshot = Snapshot({"w1", "w2", "w3", "w4"}, {}, {});
    // Two of each kind, in half of the rounds.
    const bool mixed = round % 2 == 1;
    for (int w : {1, 2}) {
      if (mixed) MultiplyBf16(&snapshot.workers[w]);
    }
    snapshot.servers = {{"s1", 0, 100}, {"s2", 0, 100}, {"s3", 0, 0}};
    uint64_t last = 0;
    std::map<uint64_t, int> overtaken;
    for (int event = 0; event < 400; ++event) {
      if (snapshot.queued.size() < 6) {
        snapshot.queued.push_back({++last, "j", static_cast<uint32_t>(1 + random() % 4),
                                   static_cast<uint32_t>(1 + random() % 3), 0, random() % 101});
        QueuedJob& added = snapshot.queued.back();
        if (random() % 2 == 0 && (added.workers <= 2 || !mixed)) added.precision = v1::BF16;
      }
      while (const auto start = Decide(snapshot).start) {
        const auto job = std::find_if(snapshot.queued.begin(), snapshot.queued.end(),
                                      [&](const QueuedJob& q) { return q.id == start->job; });
        RunningJob running{job->id, "j", 0, start->workers, {}};
        for (const std::string& server : start->servers) {
          running.server_bytes[server] = job->server_bytes;
        }
        snapshot.queued.erase(job);
        snapshot.running.push_back(running);
        std::map<std::string, int> used;
        for (const RunningJob& other : snapshot.running) {
          for (const std::string& worker : other.workers) EXPECT_EQ(++used[worker], 1);
        }
      }
      if (snapshot.queued.empty()) continue;
      const uint64_t first = snapshot.queued.front().id;
      // Only jobs that overtook the first one run: it must have started then.
      bool older = false;
      for (const RunningJob& running : snapshot.running) older = older || running.id < first;
      ASSERT_TRUE(older) << "job " << first << " waits for younger ones";
      snapshot.running.erase(snapshot.running.begin() + random() % snapshot.running.size());
    }
  }
}

TEST(SchedulerTest, PrefersServersThatHoldLess) {
  ClusterSnapshot snapshot = Snapshot({"w1"}, {}, {{4, "a", 1, 2}});
  snapshot.servers = {{"s1", 2, 0}, {"s2", 0, 0}, {"s3", 1, 0}};
  EXPECT_EQ(Decide(snapshot).start->servers, (Names{"s2", "s3"}));
}

}  // namespace
}  // namespace sangam
