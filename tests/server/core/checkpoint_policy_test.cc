#include "server/core/checkpoint_policy.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

using Steps = std::vector<uint64_t>;

v1::CheckpointSpec Every(uint64_t steps, double seconds = 0) {
  v1::CheckpointSpec spec;
  spec.set_every_steps(steps);
  spec.set_every_seconds(seconds);
  return spec;
}

v1::SnapshotReport Snapshot(uint64_t step, uint64_t updates) {
  v1::SnapshotReport report;
  report.set_step(step);
  report.set_updates(updates);
  return report;
}

CheckpointPolicy Policy(const v1::CheckpointSpec& spec, uint64_t first = 0, uint64_t total = 100) {
  return CheckpointPolicy(spec, {{0, 2}, first, total}, absl::ZeroDuration());
}

TEST(CheckpointPolicyTest, AsksForTheNextMultiples) {
  EXPECT_EQ(Policy(Every(10)).Wanted(), (Steps{10, 20}));
  EXPECT_EQ(Policy(Every(10), 20).Wanted(), (Steps{30, 40}));
  EXPECT_EQ(Policy(Every(10), 25).Wanted(), (Steps{30, 40}));
  EXPECT_EQ(Policy(Every(60)).Wanted(), (Steps{60}));
  // The last step waits for Finish.
  EXPECT_EQ(Policy(Every(100)).Wanted(), Steps{});
  EXPECT_EQ(Policy(Every(UINT64_MAX)).Wanted(), Steps{});
  EXPECT_EQ(Policy(v1::CheckpointSpec()).Wanted(), Steps{});
}

TEST(CheckpointPolicyTest, ReadyWhenEveryServerHasReported) {
  CheckpointPolicy policy = Policy(Every(10));
  EXPECT_TRUE(policy.OnSnapshot(2, Snapshot(10, 9)).ok());
  EXPECT_FALSE(policy.TakeReady().has_value());
  EXPECT_TRUE(policy.OnSnapshot(2, Snapshot(10, 9)).ok());
  EXPECT_FALSE(policy.TakeReady().has_value());
  EXPECT_TRUE(policy.OnSnapshot(0, Snapshot(10, 9)).ok());
  const auto ready = policy.TakeReady();
  ASSERT_TRUE(ready.has_value());
  EXPECT_EQ(ready->step, 10u);
  EXPECT_EQ(ready->updates, 9u);
}

TEST(CheckpointPolicyTest, OneIsWrittenAtATimeAndItsCopiesStay) {
  CheckpointPolicy policy = Policy(Every(10));
  for (const uint64_t step : {10, 20}) {
    for (const uint32_t server : {0, 2}) {
      EXPECT_TRUE(policy.OnSnapshot(server, Snapshot(step, step)).ok());
    }
  }
  EXPECT_EQ(policy.TakeReady()->step, 10u);
  EXPECT_FALSE(policy.TakeReady().has_value());
  policy.Advance(70, absl::Seconds(100));
  EXPECT_EQ(policy.Wanted(), (Steps{10, 20}));
  policy.OnEnd(10, absl::Seconds(100));
  EXPECT_EQ(policy.TakeReady()->step, 20u);
  policy.Advance(70, absl::Seconds(100));
  EXPECT_EQ(policy.Wanted(), (Steps{20, 80}));
}

TEST(CheckpointPolicyTest, GivesUpAStepThatWasMissedAndLooksFurtherAhead) {
  CheckpointPolicy policy = Policy(Every(1));
  EXPECT_EQ(policy.Wanted(), (Steps{1, 2}));
  policy.Advance(5, absl::Seconds(10));
  EXPECT_EQ(policy.Wanted(), (Steps{1, 2}));  // a report may be on its way
  policy.Advance(5, absl::Seconds(12));
  const Steps second = policy.Wanted();
  ASSERT_EQ(second.size(), 2u);
  EXPECT_GE(second[0], 7u);
  policy.Advance(40, absl::Seconds(20));
  policy.Advance(40, absl::Seconds(22));
  ASSERT_FALSE(policy.Wanted().empty());
  EXPECT_GE(policy.Wanted()[0] - 40, 2 * (second[0] - 5) - 2);
}

TEST(CheckpointPolicyTest, ByTimeAStepInTheNearFuture) {
  CheckpointPolicy policy = Policy(Every(0, 30), 0, 100000);
  EXPECT_EQ(policy.Wanted(), Steps{});
  policy.Advance(290, absl::Seconds(29));
  EXPECT_EQ(policy.Wanted(), Steps{});
  policy.Advance(300, absl::Seconds(30));
  ASSERT_EQ(policy.Wanted().size(), 1u);
  const uint64_t step = policy.Wanted()[0];
  EXPECT_GT(step, 300u);
  EXPECT_LE(step, 310u);
  for (const uint32_t server : {0, 2}) {
    EXPECT_TRUE(policy.OnSnapshot(server, Snapshot(step, 1)).ok());
  }
  EXPECT_TRUE(policy.TakeReady().has_value());
  policy.OnEnd(step, absl::Seconds(32));
  policy.Advance(600, absl::Seconds(61));
  EXPECT_EQ(policy.Wanted(), Steps{});
  policy.Advance(610, absl::Seconds(62));
  EXPECT_EQ(policy.Wanted().size(), 1u);
}

TEST(CheckpointPolicyTest, OfAJobUnderWayNothingIsAskedForUntilItsReportsHaveCome) {
  CheckpointPolicy policy(Every(10), {{0}, 0, 1000, /*under_way=*/120}, absl::ZeroDuration());
  policy.Advance(120, absl::Seconds(10));
  EXPECT_EQ(policy.Wanted(), Steps{});
  // What was reported while nobody heard it comes in a burst.
  policy.Advance(150, absl::Seconds(20));
  policy.Advance(280, absl::Milliseconds(20100));
  policy.Advance(300, absl::Milliseconds(20499));
  EXPECT_EQ(policy.Wanted(), Steps{});
  // 9 steps per second.
  policy.Advance(307, absl::Milliseconds(20500));
  EXPECT_EQ(policy.Wanted(), (Steps{310, 320}));
}

TEST(CheckpointPolicyTest, NoStepAfterTheEnd) {
  CheckpointPolicy policy = Policy(Every(0, 1));
  policy.Advance(99, absl::Seconds(5));
  EXPECT_EQ(policy.Wanted(), Steps{});
  policy.Advance(100, absl::Seconds(6));
  EXPECT_EQ(policy.Wanted(), Steps{});
}

TEST(CheckpointPolicyTest, TheLastStepComesWhenAllAreDone) {
  CheckpointPolicy policy = Policy(Every(30));
  EXPECT_EQ(policy.Wanted(), (Steps{30, 60}));
  EXPECT_FALSE(policy.is_over());
  for (const uint32_t server : {0, 2}) {
    EXPECT_TRUE(policy.OnSnapshot(server, Snapshot(30, 30)).ok());
  }
  EXPECT_EQ(policy.TakeReady()->step, 30u);
  policy.Advance(100, absl::Seconds(10));
  policy.Finish(false, absl::Seconds(10));
  // There is no room yet; step 60 was missed, 30 is being written.
  EXPECT_EQ(policy.Wanted(), (Steps{30, 60}));
  policy.OnEnd(30, absl::Seconds(11));
  policy.Advance(0, absl::Seconds(11));
  EXPECT_EQ(policy.Wanted(), (Steps{60, 100}));
  policy.Advance(0, absl::Seconds(12));
  EXPECT_EQ(policy.Wanted(), Steps{100});
  for (const uint32_t server : {0, 2}) {
    EXPECT_TRUE(policy.OnSnapshot(server, Snapshot(100, 99)).ok());
  }
  EXPECT_EQ(policy.TakeReady()->step, 100u);
  policy.Advance(0, absl::Seconds(1000));
  EXPECT_FALSE(policy.is_over());
  policy.OnEnd(100, absl::Seconds(1000));
  policy.Advance(0, absl::Seconds(1000));
  EXPECT_TRUE(policy.is_over());
  EXPECT_FALSE(policy.missed_last());
  EXPECT_EQ(policy.Wanted(), Steps{});
}

TEST(CheckpointPolicyTest, OfATimedJobTheLastStepTakesThePlaceOfTheOneBefore) {
  CheckpointPolicy policy = Policy(Every(0, 30));
  policy.Finish(false, absl::Seconds(1));
  EXPECT_EQ(policy.Wanted(), Steps{100});
  CheckpointPolicy busy = Policy(Every(0, 30));
  busy.Advance(50, absl::Seconds(31));
  const Steps timed = busy.Wanted();
  ASSERT_EQ(timed.size(), 1u);
  for (const uint32_t server : {0, 2}) {
    EXPECT_TRUE(busy.OnSnapshot(server, Snapshot(timed[0], 1)).ok());
  }
  busy.Finish(false, absl::Seconds(40));
  // Servers have room for one copy.
  EXPECT_EQ(busy.Wanted(), timed);
  EXPECT_TRUE(busy.TakeReady().has_value());
  busy.OnEnd(timed[0], absl::Seconds(41));
  busy.Advance(0, absl::Seconds(41));
  EXPECT_EQ(busy.Wanted(), Steps{100});
}

TEST(CheckpointPolicyTest, TheLastStepIsGivenUpWhenAServerSaysNothing) {
  CheckpointPolicy policy = Policy(Every(60));
  policy.Finish(false, absl::Seconds(10));
  EXPECT_TRUE(policy.OnSnapshot(0, Snapshot(100, 100)).ok());
  policy.Advance(0, absl::Seconds(24));
  EXPECT_EQ(policy.Wanted(), Steps{100});
  policy.Finish(false, absl::Seconds(24));
  policy.Advance(0, absl::Seconds(25));
  EXPECT_TRUE(policy.is_over());
  EXPECT_TRUE(policy.missed_last());
}

TEST(CheckpointPolicyTest, ALastStepThatIsWrittenIsNotWantedAgain) {
  CheckpointPolicy policy = Policy(Every(200));
  policy.Finish(true, absl::Seconds(10));
  EXPECT_TRUE(policy.is_over());
  EXPECT_FALSE(policy.missed_last());
}

// The coordinator before may have asked for it: servers forget that first.
TEST(CheckpointPolicyTest, OfAJobUnderWayTheLastStepIsAskedForAfterAWhile) {
  CheckpointPolicy policy(Every(10), {{0}, 0, 1000, /*under_way=*/1000}, absl::ZeroDuration());
  policy.Finish(false, absl::Seconds(1));
  EXPECT_EQ(policy.Wanted(), Steps{});
  EXPECT_FALSE(policy.is_over());
  // One of them is not even back.
  policy.AwaitServers(absl::Seconds(2));
  policy.Advance(0, absl::Milliseconds(4999));
  EXPECT_EQ(policy.Wanted(), Steps{});
  policy.Advance(0, absl::Milliseconds(5000));
  EXPECT_EQ(policy.Wanted(), Steps{1000});
}

TEST(CheckpointPolicyTest, RefusesReportsThatDoNotFit) {
  CheckpointPolicy policy = Policy(Every(10));
  EXPECT_TRUE(policy.OnSnapshot(1, Snapshot(11, 1)).ok());  // not wanted: too late
  EXPECT_EQ(policy.OnSnapshot(1, Snapshot(10, 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(policy.OnSnapshot(0, Snapshot(10, 9)).ok());
  EXPECT_EQ(policy.OnSnapshot(2, Snapshot(10, 10)).code(), absl::StatusCode::kInvalidArgument);
}

CheckpointPolicy OfAJobThatAsksForNone() {
  CheckpointPolicy::Run run;
  run.servers = {0, 2};
  run.steps_total = 1000;
  run.asked = false;
  return CheckpointPolicy(v1::CheckpointSpec(), run, absl::ZeroDuration());
}

TEST(CheckpointPolicyTest, AJobThatStopsCopiesTheStepThatNobodyHasBegun) {
  CheckpointPolicy policy = OfAJobThatAsksForNone();
  EXPECT_TRUE(policy.Wanted().empty());
  // Slow: the step under way is the last one.
  policy.Advance(5, absl::Seconds(50));
  EXPECT_TRUE(policy.Wanted().empty());
  policy.SetStopping(true, absl::Seconds(50));
  EXPECT_EQ(policy.stop_step(), 6u);
  EXPECT_TRUE(policy.Wanted().empty());
  policy.SetStopping(false, absl::Seconds(51));
  EXPECT_FALSE(policy.stop_step().has_value());
  EXPECT_TRUE(policy.Wanted().empty());
  // Fast: what is done in the time of a delivery is under way too.
  policy.Advance(560, absl::Seconds(56));
  policy.SetStopping(true, absl::Seconds(56));
  EXPECT_EQ(policy.stop_step(), 562u);
  policy.Advance(562, absl::Seconds(57));
  policy.Advance(0, absl::Milliseconds(57299));
  // There is no memory for a copy as long as pages may go on.
  EXPECT_TRUE(policy.Wanted().empty());
  policy.Advance(0, absl::Milliseconds(57300));
  EXPECT_EQ(policy.Wanted(), Steps{562});
  for (const uint32_t server : {0, 2}) {
    ASSERT_TRUE(policy.OnSnapshot(server, Snapshot(562, 562)).ok());
  }
  EXPECT_EQ(policy.TakeReady()->step, 562u);
  policy.OnEnd(562, absl::Seconds(58));
  policy.Advance(0, absl::Seconds(59));
  EXPECT_EQ(policy.stop_step(), 562u);
  EXPECT_TRUE(policy.Wanted().empty());
}

TEST(CheckpointPolicyTest, AStopThatAllWorkersHavePassedBeforeItIsAskedForIsGivenUpAtOnce) {
  CheckpointPolicy policy = OfAJobThatAsksForNone();
  policy.Advance(1, absl::Seconds(10));
  policy.SetStopping(true, absl::Seconds(10));
  ASSERT_EQ(policy.stop_step(), 2u);
  policy.Advance(3, absl::Seconds(11));
  EXPECT_EQ(policy.stop_step(), 5u);
  EXPECT_TRUE(policy.Wanted().empty());
}

TEST(CheckpointPolicyTest, TheStopHasNoRoomBesideTheOneCheckpointThatServersHaveMemoryFor) {
  for (const bool room : {false, true}) {
    CheckpointPolicy policy = Policy(room ? Every(20) : Every(0, 10), 0, 1000);
    policy.Advance(10, absl::Seconds(10));
    const uint64_t first = policy.Wanted().at(0);
    for (const uint32_t server : {0, 2}) {
      ASSERT_TRUE(policy.OnSnapshot(server, Snapshot(first, first)).ok());
    }
    ASSERT_TRUE(policy.TakeReady().has_value());
    policy.Advance(first, absl::Seconds(20));
    policy.SetStopping(true, absl::Seconds(20));
    const uint64_t stop = *policy.stop_step();
    EXPECT_EQ(policy.Wanted(), room ? (Steps{first, stop}) : Steps{first}) << room;
    policy.Advance(stop, absl::Seconds(21));
    policy.Advance(0, absl::Seconds(22));
    EXPECT_EQ(policy.Wanted(), (Steps{first, stop}));
  }
}

TEST(CheckpointPolicyTest, AStopThatAllWorkersHavePassedIsGivenUpForALaterOne) {
  CheckpointPolicy policy = Policy(Every(50));
  policy.Advance(1, absl::Seconds(10));
  policy.SetStopping(true, absl::Seconds(10));
  ASSERT_EQ(policy.stop_step(), 2u);
  policy.Advance(3, absl::Seconds(11));
  policy.Advance(3, absl::Seconds(13));
  EXPECT_EQ(policy.stop_step(), 5u);
  EXPECT_EQ(policy.Wanted(), Steps{5});
}

TEST(CheckpointPolicyTest, WhatNobodyHeardMakesNoStopFarAhead) {
  CheckpointPolicy policy(Every(10), {{0}, 0, 1000000, /*under_way=*/120}, absl::ZeroDuration());
  policy.SetStopping(true, absl::Seconds(10));
  policy.Advance(100120, absl::Seconds(20));
  policy.Advance(100130, absl::Milliseconds(20300));
  EXPECT_FALSE(policy.stop_step().has_value());
  // 50 steps per second.
  policy.Advance(100140, absl::Milliseconds(20500));
  EXPECT_EQ(policy.stop_step(), 100146u);
}

TEST(CheckpointPolicyTest, AStopThatIsFarAheadComesNearerUntilAServerHasCopiedIt) {
  for (const bool copied : {false, true}) {
    CheckpointPolicy policy = Policy(Every(0, 1e6), 0, 100000);
    policy.Advance(10000, absl::Seconds(10));
    policy.SetStopping(true, absl::Seconds(10));
    ASSERT_EQ(policy.stop_step(), 10101u);
    if (copied) {
      ASSERT_TRUE(policy.OnSnapshot(0, Snapshot(10101, 1)).ok());
    }
    policy.Advance(10001, absl::Seconds(40));
    EXPECT_EQ(policy.stop_step(), copied ? 10101u : 10027u);
    EXPECT_EQ(policy.Wanted(), Steps{*policy.stop_step()});
  }
}

TEST(CheckpointPolicyTest, AStopIsHeldFromTheLastCopyUntilItIsWritten) {
  CheckpointPolicy policy = OfAJobThatAsksForNone();
  EXPECT_FALSE(policy.holds_stop());
  policy.SetStopping(true, absl::Seconds(1));
  ASSERT_EQ(policy.stop_step(), 1u);
  policy.Advance(1, absl::Seconds(1));
  policy.Advance(0, absl::Seconds(2));
  ASSERT_TRUE(policy.OnSnapshot(0, Snapshot(1, 1)).ok());
  EXPECT_FALSE(policy.holds_stop());
  ASSERT_TRUE(policy.OnSnapshot(2, Snapshot(1, 1)).ok());
  EXPECT_TRUE(policy.holds_stop());
  ASSERT_TRUE(policy.TakeReady().has_value());
  EXPECT_TRUE(policy.holds_stop());
  policy.OnEnd(1, absl::Seconds(2));
  EXPECT_FALSE(policy.holds_stop());
}

TEST(CheckpointPolicyTest, ForAStopWhatWasWantedMakesRoom) {
  CheckpointPolicy policy = Policy(Every(10));
  ASSERT_EQ(policy.Wanted(), (Steps{10, 20}));
  policy.Advance(4, absl::Seconds(40));
  policy.SetStopping(true, absl::Seconds(40));
  EXPECT_EQ(policy.Wanted(), Steps{5});
  policy.SetStopping(false, absl::Seconds(40));
  EXPECT_EQ(policy.Wanted(), (Steps{10, 20}));
}

TEST(CheckpointPolicyTest, AJobThatIsDoneDoesNotStop) {
  CheckpointPolicy policy = OfAJobThatAsksForNone();
  policy.Advance(999, absl::Seconds(10));
  policy.SetStopping(true, absl::Seconds(10));
  EXPECT_FALSE(policy.stop_step().has_value());
  policy.Finish(false, absl::Seconds(11));
  EXPECT_TRUE(policy.is_over());
  EXPECT_TRUE(policy.Wanted().empty());
}

}  // namespace
}  // namespace sangam
