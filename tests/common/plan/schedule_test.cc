#include "common/plan/schedule.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Le;

std::string Order(v1::Schedule schedule, uint32_t ranks, uint32_t micro_batches, uint32_t rank,
                  uint32_t chunks = 1) {
  return ToString(RankPasses({schedule, ranks, chunks, micro_batches}, rank), chunks);
}

// Every schedule with 1 to 8 ranks, 1 to 32 micro-batches and, where it may, 1 to 4 chunks.
std::vector<ScheduleShape> AllShapes() {
  std::vector<ScheduleShape> shapes;
  for (const v1::Schedule schedule :
       {v1::GPIPE, v1::ONE_F_ONE_B, v1::INTERLEAVED, v1::ZERO_BUBBLE, v1::EAGER_ONE_F_ONE_B}) {
    for (uint32_t chunks = 1; chunks <= (schedule == v1::INTERLEAVED ? 4u : 1u); ++chunks) {
      for (uint32_t ranks = 1; ranks <= 8; ++ranks) {
        for (uint32_t m = 1; m <= 32; ++m) shapes.push_back({schedule, ranks, chunks, m});
      }
    }
  }
  return shapes;
}

TEST(ScheduleTest, GPipeRunsAllForwardPassesFirst) {
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(Order(v1::GPIPE, 3, 4, rank), "F0 F1 F2 F3 B0 B1 B2 B3");
  }
}

TEST(ScheduleTest, OneFOneBAlternatesOnceThePipelineIsFull) {
  EXPECT_EQ(Order(v1::ONE_F_ONE_B, 4, 8, 0), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
  EXPECT_EQ(Order(v1::ONE_F_ONE_B, 4, 8, 1), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7");
  EXPECT_EQ(Order(v1::ONE_F_ONE_B, 4, 8, 2), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7");
  EXPECT_EQ(Order(v1::ONE_F_ONE_B, 4, 8, 3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
}

TEST(ScheduleTest, OneFOneBTakesFewerMicroBatchesThanRanks) {
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(Order(v1::ONE_F_ONE_B, 4, 2, rank), "F0 F1 B0 B1");
  }
  EXPECT_EQ(Order(v1::ONE_F_ONE_B, 4, 2, 3), "F0 B0 F1 B1");
}

TEST(ScheduleTest, EagerOneFOneBRunsAheadTwiceAsFar) {
  EXPECT_EQ(Order(v1::EAGER_ONE_F_ONE_B, 2, 4, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(Order(v1::EAGER_ONE_F_ONE_B, 2, 4, 1), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(Order(v1::EAGER_ONE_F_ONE_B, 3, 6, 0), "F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5");
  EXPECT_EQ(Order(v1::EAGER_ONE_F_ONE_B, 3, 6, 1), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  EXPECT_EQ(Order(v1::EAGER_ONE_F_ONE_B, 4, 2, 0), "F0 F1 B0 B1");
  EXPECT_FALSE(SplitsBackward(v1::EAGER_ONE_F_ONE_B));
}

TEST(ScheduleTest, AnUnspecifiedScheduleIsOneFOneB) {
  EXPECT_EQ(Order(v1::SCHEDULE_UNSPECIFIED, 4, 8, 1), Order(v1::ONE_F_ONE_B, 4, 8, 1));
}

TEST(ScheduleTest, ZeroBubbleHoldsBackAsManyWeightPassesAsItsRank) {
  EXPECT_EQ(Order(v1::ZERO_BUBBLE, 3, 4, 0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  EXPECT_EQ(Order(v1::ZERO_BUBBLE, 3, 4, 1), "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
  EXPECT_EQ(Order(v1::ZERO_BUBBLE, 3, 4, 2), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
  EXPECT_TRUE(SplitsBackward(v1::ZERO_BUBBLE));
  EXPECT_FALSE(SplitsBackward(v1::ONE_F_ONE_B));
}

TEST(ScheduleTest, InterleavedGoesChunkByChunkThroughGroups) {
  EXPECT_EQ(Order(v1::INTERLEAVED, 2, 2, 0, 2), "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
  EXPECT_EQ(Order(v1::INTERLEAVED, 2, 2, 1, 2), "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0");
  // Groups of three and of two micro-batches.
  EXPECT_EQ(Order(v1::INTERLEAVED, 2, 5, 1, 2),
            "F0.0 F1.0 F2.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.0 B0.0 F4.0 B1.0 F3.1 B2.0 F4.1 B3.1 "
            "B4.1 B3.0 B4.0");
}

TEST(ScheduleTest, OneRankWithSeveralChunksGoesThroughOneMicroBatchAfterTheOther) {
  EXPECT_EQ(Order(v1::INTERLEAVED, 1, 2, 0, 2), "F0.0 F0.1 B0.1 F1.0 B0.0 F1.1 B1.1 B1.0");
  EXPECT_EQ(Order(v1::INTERLEAVED, 1, 2, 0, 1), "F0 B0 F1 B1");
}

TEST(ScheduleTest, EvaluationGoesChunkByChunkThroughSmallGroups) {
  EXPECT_EQ(ToString(RankForwards({v1::INTERLEAVED, 2, 2, 3}, 1), 2),
            "F0.0 F1.0 F0.1 F1.1 F2.0 F2.1");
  EXPECT_EQ(ToString(RankForwards({v1::GPIPE, 2, 1, 3}, 0), 1), "F0 F1 F2");
}

TEST(ScheduleTest, EveryListHasEveryPassOnceAndBackwardInTheOrderOfMicroBatches) {
  for (const ScheduleShape& shape : AllShapes()) {
    const bool split = SplitsBackward(shape.schedule);
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      std::map<std::pair<PassKind, uint32_t>, std::vector<uint32_t>> found;
      for (const Pass& pass : RankPasses(shape, rank)) {
        found[{pass.kind, pass.chunk}].push_back(pass.micro_batch);
      }
      std::vector<uint32_t> all;
      for (uint32_t m = 0; m < shape.micro_batches; ++m) all.push_back(m);
      ASSERT_EQ(found.size(), shape.chunks * (split ? 3 : 2));
      for (const auto& [kind, micro_batches] : found) ASSERT_EQ(micro_batches, all);
      ASSERT_EQ(found.count({PassKind::kBackward, 0}), split ? 0u : 1u);
    }
  }
}

TEST(ScheduleTest, EvaluationHasEveryForwardPassOnce) {
  for (const ScheduleShape& shape : AllShapes()) {
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      std::vector<std::vector<uint32_t>> count(shape.chunks,
                                               std::vector<uint32_t>(shape.micro_batches, 0));
      for (const Pass& pass : RankForwards(shape, rank)) {
        ASSERT_EQ(pass.kind, PassKind::kForward);
        ++count[pass.chunk][pass.micro_batch];
      }
      for (const auto& counts : count) ASSERT_THAT(counts, Each(1u));
    }
  }
}

// Most micro-batches of all chunks that are kept at once.
uint32_t Kept(const std::vector<Pass>& passes) {
  uint32_t now = 0;
  uint32_t most = 0;
  for (const Pass& pass : passes) {
    if (pass.kind == PassKind::kForward) most = std::max(most, ++now);
    if (pass.kind == PassKind::kBackward || pass.kind == PassKind::kBackwardWeights) --now;
  }
  return most;
}

TEST(ScheduleTest, KeepsNoMoreThanTheSchedulesPromise) {
  for (const ScheduleShape& shape : AllShapes()) {
    const uint32_t m = shape.micro_batches;
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      const std::vector<Pass> passes = RankPasses(shape, rank);
      const std::vector<uint32_t> in_flight = InFlight(passes, shape.chunks);
      ASSERT_EQ(in_flight.size(), shape.chunks);
      ASSERT_THAT(in_flight, Each(Le(m)));
      uint32_t sum = 0;
      for (const uint32_t chunk : in_flight) sum += chunk;
      ASSERT_GE(sum, Kept(passes));
      switch (shape.schedule) {
        case v1::GPIPE:
          ASSERT_THAT(in_flight, ElementsAre(m));
          break;
        case v1::ONE_F_ONE_B:
          ASSERT_THAT(in_flight, ElementsAre(std::min(shape.ranks - rank, m)));
          break;
        case v1::EAGER_ONE_F_ONE_B:
          ASSERT_THAT(in_flight, ElementsAre(std::min(2 * (shape.ranks - rank) - 1, m)));
          break;
        case v1::ZERO_BUBBLE:
          ASSERT_THAT(in_flight, ElementsAre(Le(shape.ranks)));
          break;
        default: {
          const uint32_t groups = std::max(1u, m / shape.ranks);
          const uint32_t max_group = (m + groups - 1) / groups;
          const uint32_t warm_up = std::min(
              (shape.chunks - 1) * max_group + 2 * (shape.ranks - 1 - rank), m * shape.chunks);
          ASSERT_LE(Kept(passes), warm_up + 1);
          ASSERT_LE(sum, (warm_up + 1) * shape.chunks);
        }
      }
    }
  }
}

TEST(ScheduleTest, CountsWhatIsInFlightForEachChunk) {
  EXPECT_THAT(InFlight(RankPasses({v1::INTERLEAVED, 2, 2, 2}, 0), 2), ElementsAre(2u, 2u));
  EXPECT_THAT(InFlight(RankPasses({v1::INTERLEAVED, 2, 2, 2}, 1), 2), ElementsAre(2u, 1u));
  // Up to the pass of the weights.
  EXPECT_THAT(InFlight({{PassKind::kForward, 0, 0},
                        {PassKind::kBackwardInput, 0, 0},
                        {PassKind::kForward, 0, 1},
                        {PassKind::kBackwardWeights, 0, 0},
                        {PassKind::kBackwardInput, 0, 1},
                        {PassKind::kBackwardWeights, 0, 1}},
                       1),
              ElementsAre(2u));
  // In an evaluation nothing is kept beyond its pass.
  EXPECT_THAT(InFlight(RankForwards({v1::INTERLEAVED, 2, 2, 3}, 0), 2), ElementsAre(1u, 1u));
}

}  // namespace
}  // namespace sangam
