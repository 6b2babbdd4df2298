#include "common/plan/schedule_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;

SchedulePlay PlayOf(const ScheduleShape& shape) {
  SchedulePlay play;
  play.ranks = shape.ranks;
  play.chunks = shape.chunks;
  play.micro_batches = shape.micro_batches;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    play.passes.push_back(RankPasses(shape, rank));
  }
  return play;
}

SchedulePlay EvaluationOf(const ScheduleShape& shape) {
  SchedulePlay play = PlayOf(shape);
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) play.passes[rank] = RankForwards(shape, rank);
  return play;
}

std::vector<ScheduleShape> Shapes(v1::Schedule schedule) {
  std::vector<ScheduleShape> shapes;
  for (uint32_t chunks = 1; chunks <= (schedule == v1::INTERLEAVED ? 4u : 1u); ++chunks) {
    for (uint32_t ranks = 1; ranks <= 8; ++ranks) {
      for (uint32_t m = 1; m <= 32; ++m) shapes.push_back({schedule, ranks, chunks, m});
    }
  }
  return shapes;
}

std::string Name(const ScheduleShape& shape) {
  return v1::Schedule_Name(shape.schedule) + " ranks " + std::to_string(shape.ranks) + " chunks " +
         std::to_string(shape.chunks) + " micro-batches " + std::to_string(shape.micro_batches);
}

// The same for every stage.
void SetTimes(const StageTimes& times, SchedulePlay* play) {
  play->times.assign(size_t{play->ranks} * play->chunks, times);
}

std::string Message(const SchedulePlay& play) {
  return std::string(PlaySchedule(play).status().message());
}

TEST(ScheduleCheckTest, GPipeAndOneFOneBTakeWhatTheFormulaSays) {
  for (const v1::Schedule schedule : {v1::GPIPE, v1::ONE_F_ONE_B, v1::EAGER_ONE_F_ONE_B}) {
    for (const ScheduleShape& shape : Shapes(schedule)) {
      SchedulePlay play = PlayOf(shape);
      SetTimes({2, 3, 4, 0, 0}, &play);
      const auto report = PlaySchedule(play);
      ASSERT_TRUE(report.ok()) << Name(shape) << report.status();
      const double m = shape.micro_batches;
      ASSERT_EQ(report->makespan, (m + shape.ranks - 1) * 9) << Name(shape);
      ASSERT_THAT(report->busy, Each(m * 9));
      ASSERT_NEAR(report->bubble, (shape.ranks - 1) / (m + shape.ranks - 1), 1e-12);
      for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
        const uint32_t behind = shape.ranks - rank - 1;
        const uint32_t kept = schedule == v1::GPIPE         ? shape.micro_batches
                              : schedule == v1::ONE_F_ONE_B ? behind + 1
                                                            : 2 * behind + 1;
        ASSERT_EQ(report->peak_stash[rank], std::min(kept, shape.micro_batches));
      }
    }
  }
}

TEST(ScheduleCheckTest, EagerOneFOneBWaitsForTransfersOnlyAtTheEnds) {
  for (uint32_t ranks = 2; ranks <= 8; ++ranks) {
    const double m = 32;
    const auto makespan = [&](v1::Schedule schedule) {
      SchedulePlay play = PlayOf({schedule, ranks, 1, 32});
      SetTimes({4, 4, 4, 1, 1}, &play);
      return PlaySchedule(play)->makespan;
    };
    EXPECT_EQ(makespan(v1::EAGER_ONE_F_ONE_B), (m + ranks - 1) * 12 + 2 * (ranks - 1)) << ranks;
    // Each micro-batch waits for both ways, once for every `ranks` of them.
    EXPECT_GE(makespan(v1::ONE_F_ONE_B), (m + ranks - 1) * 12 + m / ranks * 2 * (ranks - 1))
        << ranks;
  }
}

TEST(ScheduleCheckTest, ZeroBubbleFillsTheGapsWithPassesOfTheWeights) {
  for (const ScheduleShape& shape : Shapes(v1::ZERO_BUBBLE)) {
    const auto report = PlaySchedule(PlayOf(shape));
    ASSERT_TRUE(report.ok()) << Name(shape) << report.status();
    ASSERT_THAT(report->peak_stash, Each(Le(shape.ranks))) << Name(shape);
    if (shape.micro_batches < shape.ranks) continue;
    // (P - 1)(tF + tB - tW) where all three take the same time.
    ASSERT_EQ(report->makespan, 3.0 * shape.micro_batches + shape.ranks - 1) << Name(shape);
  }
}

TEST(ScheduleCheckTest, InterleavedDividesTheBubbleByTheChunks) {
  for (const ScheduleShape& shape : Shapes(v1::INTERLEAVED)) {
    SchedulePlay play = PlayOf(shape);
    SetTimes({2, 3, 1, 0, 0}, &play);
    const auto report = PlaySchedule(play);
    ASSERT_TRUE(report.ok()) << Name(shape) << report.status();
    const uint32_t m = shape.micro_batches;
    const uint32_t groups = std::max(1u, m / shape.ranks);
    const uint32_t max_group = (m + groups - 1) / groups;
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      const uint32_t warm_up = (shape.chunks - 1) * max_group + 2 * (shape.ranks - 1 - rank);
      ASSERT_LE(report->peak_stash[rank], warm_up + 1) << Name(shape);
    }
    if (m < shape.ranks) continue;
    // Times are those of one chunk.
    ASSERT_EQ(report->makespan, 6.0 * (m * shape.chunks + shape.ranks - 1)) << Name(shape);
  }
}

TEST(ScheduleCheckTest, OneCreditIsEnoughWithoutInterleaving) {
  for (const v1::Schedule schedule :
       {v1::GPIPE, v1::ONE_F_ONE_B, v1::ZERO_BUBBLE, v1::EAGER_ONE_F_ONE_B}) {
    for (const ScheduleShape& shape : Shapes(schedule)) {
      const auto credits = LeastCredits(PlayOf(shape));
      ASSERT_TRUE(credits.ok()) << Name(shape) << credits.status();
      ASSERT_EQ(*credits, 1u) << Name(shape);
    }
  }
}

TEST(ScheduleCheckTest, InterleavingNeedsHalfTheRanksAndOneMore) {
  uint32_t most = 0;
  for (const ScheduleShape& shape : Shapes(v1::INTERLEAVED)) {
    SchedulePlay play = PlayOf(shape);
    const auto credits = LeastCredits(play);
    ASSERT_TRUE(credits.ok()) << Name(shape) << credits.status();
    ASSERT_LE(*credits, shape.ranks / 2 + 1) << Name(shape);
    most = std::max(most, *credits);
    play.credits = *credits;
    ASSERT_TRUE(PlaySchedule(play).ok()) << Name(shape);
    play.credits = *credits - 1;
    ASSERT_FALSE(PlaySchedule(play).ok()) << Name(shape);
  }
  EXPECT_GT(most, 1u);
}

TEST(ScheduleCheckTest, EvaluationNeedsOneCredit) {
  for (const ScheduleShape& shape : Shapes(v1::INTERLEAVED)) {
    SchedulePlay play = EvaluationOf(shape);
    const auto credits = LeastCredits(play);
    ASSERT_TRUE(credits.ok()) << Name(shape) << credits.status();
    ASSERT_EQ(*credits, 1u) << Name(shape);
    const auto report = PlaySchedule(play);
    ASSERT_TRUE(report.ok());
    ASSERT_THAT(report->peak_stash, Each(1u));
    // Nobody waits once the pipeline is full, as long as groups are full.
    if (shape.micro_batches % shape.ranks != 0) continue;
    ASSERT_EQ(report->makespan, shape.micro_batches * shape.chunks + shape.ranks - 1)
        << Name(shape);
  }
}

TEST(ScheduleCheckTest, AmpleCreditsAreTheFewestThatCostNoTime) {
  for (const v1::Schedule schedule :
       {v1::GPIPE, v1::ONE_F_ONE_B, v1::INTERLEAVED, v1::ZERO_BUBBLE, v1::EAGER_ONE_F_ONE_B}) {
    for (const ScheduleShape& shape : Shapes(schedule)) {
      if (shape.micro_batches % 5 != 0) continue;
      SchedulePlay play = PlayOf(shape);
      SetTimes({1, 1, 1, 0.25, 0.25}, &play);
      const double best = PlaySchedule(play)->makespan;
      const auto ample = AmpleCredits(play);
      ASSERT_TRUE(ample.ok()) << Name(shape) << ample.status();
      ASSERT_GE(*ample, *LeastCredits(play)) << Name(shape);
      play.credits = *ample;
      ASSERT_EQ(PlaySchedule(play)->makespan, best) << Name(shape);
      if (*ample == 1) continue;
      play.credits = *ample - 1;
      const auto fewer = PlaySchedule(play);
      ASSERT_TRUE(!fewer.ok() || fewer->makespan > best) << Name(shape);
    }
  }
}

TEST(ScheduleCheckTest, NamesWhatEachRankOfADeadlockWaitsFor) {
  SchedulePlay play = PlayOf({v1::ONE_F_ONE_B, 2, 1, 2});
  // Rank 0 wants a gradient before it sends what the gradient is made from.
  play.passes[1] = {{PassKind::kForward, 0, 1},
                    {PassKind::kForward, 0, 0},
                    {PassKind::kBackward, 0, 0},
                    {PassKind::kBackward, 0, 1}};
  play.passes[0] = {{PassKind::kForward, 0, 0},
                    {PassKind::kBackward, 0, 0},
                    {PassKind::kForward, 0, 1},
                    {PassKind::kBackward, 0, 1}};
  const absl::Status status = PlaySchedule(play).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 0 cannot begin B0 and waits for the gradient of micro-batch 0 from "
                        "rank 1 (stage 1); rank 1 cannot begin F1 and waits for the activation of "
                        "micro-batch 1 from rank 0 (stage 0)"));
  EXPECT_EQ(LeastCredits(play).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ScheduleCheckTest, NamesWhoWaitsForRoom) {
  SchedulePlay play = PlayOf({v1::GPIPE, 2, 1, 2});
  std::swap(play.passes[1][0], play.passes[1][1]);  // F1 before F0
  play.credits = 1;
  EXPECT_THAT(Message(play),
              HasSubstr("with 1 credits: rank 0 has done F1 and waits for room at rank 1 (stage "
                        "1), which has not taken 1 tensors; rank 1 cannot begin F1"));
  EXPECT_EQ(*LeastCredits(play), 2u);
}

TEST(ScheduleCheckTest, ASenderDoesNothingElseWhileItWaitsForRoom) {
  // Rank 1 is slow. With one credit rank 0 sends F1 when rank 1 has begun F0, and so on.
  SchedulePlay play = EvaluationOf({v1::GPIPE, 2, 1, 4});
  play.times = {{1, 0, 0, 0, 0}, {10, 0, 0, 0, 0}};
  play.credits = 1;
  const auto report = PlaySchedule(play);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->makespan, 41);
  EXPECT_EQ(report->most_waiting, 1u);
  EXPECT_THAT(report->busy, ElementsAre(4, 40));
  EXPECT_NEAR(report->bubble, 1 - 22.0 / 41, 1e-12);
  play.credits = UINT32_MAX;
  EXPECT_EQ(PlaySchedule(play)->most_waiting, 3u);
  EXPECT_EQ(*AmpleCredits(play), 1u);
}

TEST(ScheduleCheckTest, TransfersDelayTheReceiverOnly) {
  SchedulePlay play = PlayOf({v1::ONE_F_ONE_B, 2, 1, 1});
  // F0 at 1, there at 6; F0 B0 at 9, the gradient there at 16.
  play.times = {{1, 1, 1, 5, 100}, {1, 1, 1, 100, 7}};
  const auto report = PlaySchedule(play);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->makespan, 18);
}

TEST(ScheduleCheckTest, ASplitBackwardSendsTheGradientBeforeThePassOfTheWeights) {
  SchedulePlay play = PlayOf({v1::ZERO_BUBBLE, 2, 1, 1});
  play.times = {{1, 2, 4, 0, 0}, {1, 2, 4, 0, 0}};
  // Rank 1: F 1-2, B 2-4, W 4-8; rank 0: B 4-6, W 6-10.
  EXPECT_EQ(PlaySchedule(play)->makespan, 10);
}

TEST(ScheduleCheckTest, RaggedTimesEndNoEarlierThanTheBusiestRankAndNoLaterThanAllInTurn) {
  for (const v1::Schedule schedule :
       {v1::GPIPE, v1::ONE_F_ONE_B, v1::INTERLEAVED, v1::ZERO_BUBBLE, v1::EAGER_ONE_F_ONE_B}) {
    for (const ScheduleShape& shape : Shapes(schedule)) {
      SchedulePlay play = PlayOf(shape);
      double all = 0;
      for (uint32_t s = 0; s < shape.ranks * shape.chunks; ++s) {
        play.times.push_back({1.0 + s % 3, 1.0 + s % 2, 2.0 + s % 5, 0.5 * (s % 2), 0.25});
        const StageTimes& t = play.times.back();
        all += t.forward + t.backward_input + t.backward_weights + t.forward_transfer +
               t.backward_transfer;
      }
      const auto report = PlaySchedule(play);
      ASSERT_TRUE(report.ok()) << Name(shape) << report.status();
      ASSERT_GE(report->makespan, *std::max_element(report->busy.begin(), report->busy.end()));
      ASSERT_LE(report->makespan, all * shape.micro_batches) << Name(shape);
      play.credits = *LeastCredits(play);
      ASSERT_GE(PlaySchedule(play)->makespan, report->makespan) << Name(shape);
    }
  }
}

TEST(ScheduleCheckTest, SkipsDelayWhoNeedsThem) {
  SchedulePlay play = PlayOf({v1::ONE_F_ONE_B, 3, 1, 1});
  play.times = {{1, 1, 1, 10, 0}, {1, 1, 1, 0, 0}, {1, 1, 1, 0, 20}};
  // Stage 1 begins at 11, stage 2 at 12; backward: stage 2 ends at 15, stage 1 begins at 35.
  EXPECT_EQ(PlaySchedule(play)->makespan, 39);
  play.times[0].forward_transfer = 0;
  play.times[2].backward_transfer = 0;
  EXPECT_EQ(PlaySchedule(play)->makespan, 9);
  play.skips = {{0, 2}};
  EXPECT_EQ(PlaySchedule(play)->makespan, 9);
  // The skip takes as long as any tensor that leaves its stage: 2 stages at once are no slower.
  play.times[0].forward_transfer = 10;
  EXPECT_EQ(PlaySchedule(play)->makespan, 19);
}

TEST(ScheduleCheckTest, SkipsWaitForRoomToo) {
  // Rank 0 would run ahead, but its skip to rank 3 has room for one.
  SchedulePlay play = EvaluationOf({v1::GPIPE, 4, 1, 8});
  play.credits = 1;
  const double chain = PlaySchedule(play)->makespan;
  EXPECT_EQ(chain, 11);
  play.skips = {{0, 3}};
  EXPECT_EQ(*LeastCredits(play), 1u);
  EXPECT_GT(PlaySchedule(play)->makespan, chain);
  // F0 to F2 end at 1, 2 and 3, when rank 3 takes the first.
  EXPECT_EQ(*AmpleCredits(play), 2u);
}

TEST(ScheduleCheckTest, SkipsOfEverySchedulesPassWithTheLeastCredits) {
  for (const v1::Schedule schedule :
       {v1::GPIPE, v1::ONE_F_ONE_B, v1::INTERLEAVED, v1::ZERO_BUBBLE, v1::EAGER_ONE_F_ONE_B}) {
    for (const ScheduleShape& shape : Shapes(schedule)) {
      const uint32_t stages = shape.ranks * shape.chunks;
      if (stages < 3) continue;
      SchedulePlay play = PlayOf(shape);
      play.skips = {{0, stages - 1}, {1, stages - 1}, {0, 2}, {stages - 2, stages - 1}};
      const auto credits = LeastCredits(play);
      ASSERT_TRUE(credits.ok()) << Name(shape) << credits.status();
      play.credits = *credits;
      ASSERT_TRUE(PlaySchedule(play).ok()) << Name(shape);
      SchedulePlay evaluation = EvaluationOf(shape);
      evaluation.skips = play.skips;
      ASSERT_LE(*LeastCredits(evaluation), std::min(shape.ranks, shape.micro_batches))
          << Name(shape);
      if (schedule == v1::INTERLEAVED) continue;
      ASSERT_LE(*credits, shape.ranks) << Name(shape);
    }
  }
}

TEST(ScheduleCheckTest, RefusesListsThatDoNotFit) {
  const SchedulePlay good = PlayOf({v1::ONE_F_ONE_B, 2, 1, 2});
  ASSERT_TRUE(PlaySchedule(good).ok());
  SchedulePlay play = good;
  play.passes[1].pop_back();
  EXPECT_EQ(Message(play), "rank 1, pass B1: found nowhere, expected once");
  play = good;
  play.passes[1].push_back({PassKind::kForward, 0, 0});
  EXPECT_EQ(Message(play), "rank 1, pass F0: found twice, expected once");
  play = good;
  play.passes[0].erase(play.passes[0].begin());
  EXPECT_EQ(Message(play), "rank 0, pass B0: found before its forward pass, expected after it");
  play = good;
  play.passes[0] = {{PassKind::kForward, 0, 0},
                    {PassKind::kForward, 0, 1},
                    {PassKind::kBackward, 0, 1},
                    {PassKind::kBackward, 0, 0}};
  EXPECT_EQ(Message(play), "rank 0, pass B1: found out of order, expected micro-batch 0");
  play = good;
  play.passes[0].push_back({PassKind::kForward, 1, 0});
  EXPECT_EQ(Message(play),
            "rank 0, pass F0: found chunk 1 and micro-batch 0, expected below 1 and 2");
  // Gradients that nobody takes.
  play = good;
  play.passes[0] = {{PassKind::kForward, 0, 0}, {PassKind::kForward, 0, 1}};
  EXPECT_EQ(Message(play), "rank 0, pass B0: found nowhere, expected once");
}

TEST(ScheduleCheckTest, RefusesSplitPassesThatDoNotFit) {
  const SchedulePlay good = PlayOf({v1::ZERO_BUBBLE, 1, 1, 1});
  ASSERT_TRUE(PlaySchedule(good).ok());
  SchedulePlay play = good;
  std::swap(play.passes[0][1], play.passes[0][2]);
  EXPECT_EQ(Message(play),
            "rank 0, pass W0: found before its backward pass of the input, expected after");
  play = good;
  play.passes[0].pop_back();
  EXPECT_EQ(Message(play), "rank 0, pass W0: found nowhere, expected once");
  play = good;
  play.passes[0].push_back({PassKind::kBackward, 0, 0});
  EXPECT_EQ(Message(play), "rank 0, pass B0: found twice, expected once");
}

TEST(ScheduleCheckTest, RefusesNumbersThatDoNotFit) {
  const SchedulePlay good = PlayOf({v1::ONE_F_ONE_B, 2, 1, 2});
  SchedulePlay play = good;
  play.ranks = 3;
  EXPECT_THAT(Message(play), HasSubstr("found the passes of 2 ranks, expected 3"));
  play = good;
  play.chunks = 0;
  EXPECT_THAT(Message(play), HasSubstr("found 2 ranks, 0 chunks"));
  play = good;
  play.credits = 0;
  EXPECT_THAT(Message(play), HasSubstr("found 0 credits, expected at least 1"));
  EXPECT_EQ(*LeastCredits(play), 1u);
  play = good;
  play.times.resize(3);
  EXPECT_THAT(Message(play), HasSubstr("found times of 3 stages, expected 2"));
  play = good;
  SetTimes({1, std::nan(""), 1, 0, 0}, &play);
  EXPECT_THAT(Message(play), HasSubstr("times of stage 0: found nan"));
  play = good;
  play.skips = {{1, 1}};
  EXPECT_THAT(Message(play), HasSubstr("found a skip from stage 1 to 1"));
  play.skips = {{0, 2}};
  EXPECT_THAT(Message(play), HasSubstr("expected forward and below 2"));
  play = good;
  play.micro_batches = UINT32_MAX;
  EXPECT_THAT(Message(play), HasSubstr("expected at most 16777216 forward passes"));
  EXPECT_EQ(AmpleCredits(play).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sangam
