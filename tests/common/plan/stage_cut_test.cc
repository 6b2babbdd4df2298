#include "common/plan/stage_cut.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "tests/common/plan/plan_fixtures.h"

namespace sangam {
namespace {

using testing::BlockSizes;
using testing::ChainLayout;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kImpossible = std::numeric_limits<double>::infinity();

// Blocks in each stage; the stages follow one another from block 0.
std::vector<uint32_t> Counts(const std::vector<v1::StagePlan>& stages) {
  std::vector<uint32_t> counts;
  uint32_t next = 0;
  for (const v1::StagePlan& stage : stages) {
    EXPECT_EQ(stage.first_block(), next);
    next += stage.block_count();
    counts.push_back(stage.block_count());
  }
  return counts;
}

StageCosts SumOf(const std::vector<double>& work) {
  return [work](uint32_t, uint32_t first, uint32_t end) {
    StageCost cost;
    for (uint32_t b = first; b < end; ++b) cost.load += work[b];
    return cost;
  };
}

TEST(StageCutTest, MinimisesTheSlowestStage) {
  EXPECT_THAT(Counts(*CutBlocks(5, 2, SumOf({1, 1, 1, 1, 4}))), ElementsAre(4, 1));
  EXPECT_THAT(Counts(*CutBlocks(5, 3, SumOf({5, 1, 1, 2, 2}))), ElementsAre(1, 2, 2));
  EXPECT_THAT(Counts(*CutBlocks(4, 4, SumOf({9, 1, 1, 1}))), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Counts(*CutBlocks(3, 1, SumOf({1, 2, 3}))), ElementsAre(3));
}

TEST(StageCutTest, PrefersEvenCutsAndFewerBlocksInFront) {
  // {3,3,1}, {1,3,3} and {3,1,3} are as fast but less even than these three; the first is lightest.
  EXPECT_THAT(Counts(*CutBlocks(7, 3, SumOf({1, 1, 1, 1, 1, 1, 1}))), ElementsAre(2, 2, 3));
}

TEST(StageCutTest, AvoidsAnEntryThatCostsMoreThanTheBlocks) {
  const std::vector<double> work = {1, 1, 1, 1};
  const std::vector<double> entry = {0, 1, 10, 3};
  const auto cut = CutBlocks(4, 2, [&](uint32_t stage, uint32_t first, uint32_t end) {
    StageCost cost = SumOf(work)(stage, first, end);
    cost.other = entry[first];
    return cost;
  });
  EXPECT_THAT(Counts(*cut), ElementsAre(1, 3));
}

TEST(StageCutTest, StagesDifferInSpeedAndInWhatTheyCanHold) {
  const std::vector<double> work = {1, 1, 1, 1};
  // The second one is three times as fast.
  EXPECT_THAT(Counts(*CutBlocks(4, 2,
                                [&](uint32_t stage, uint32_t first, uint32_t end) {
                                  StageCost cost = SumOf(work)(stage, first, end);
                                  if (stage == 1) cost.load /= 3;
                                  return cost;
                                })),
              ElementsAre(1, 3));
  // The second one holds one block.
  EXPECT_THAT(Counts(*CutBlocks(4, 2,
                                [&](uint32_t stage, uint32_t first, uint32_t end) {
                                  StageCost cost = SumOf(work)(stage, first, end);
                                  if (stage == 1 && end - first > 1) cost.load = kImpossible;
                                  return cost;
                                })),
              ElementsAre(3, 1));
}

TEST(StageCutTest, RefusesWhenNoCutIsPossible) {
  const auto cut = CutBlocks(4, 2, [](uint32_t, uint32_t first, uint32_t end) {
    return StageCost{end - first > 1 ? kImpossible : 1, 0};
  });
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(StageCutTest, RefusesMoreStagesThanBlocksWithBothNumbers) {
  const auto cut = CutBlocks(3, 4, SumOf({1, 1, 1}));
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(cut.status().message(), HasSubstr("found 4, expected 1 to the model's 3 blocks"));
  EXPECT_FALSE(CutBlocks(3, 0, SumOf({1, 1, 1})).ok());
}

// The least cost of the dearest stage, by trying every cut.
double BestByTrying(uint32_t blocks, uint32_t stages, const StageCosts& costs) {
  double best = kImpossible;
  for (uint32_t mask = 0; mask < (1u << (blocks - 1)); ++mask) {
    double dearest = 0;
    uint32_t stage = 0;
    uint32_t first = 0;
    for (uint32_t end = 1; end <= blocks; ++end) {
      const bool cut = end == blocks || (mask >> (end - 1) & 1) != 0;
      if (!cut) continue;
      const StageCost cost = costs(std::min(stage, stages - 1), first, end);
      dearest = std::max({dearest, cost.load, cost.other});
      first = end;
      ++stage;
    }
    if (stage == stages) best = std::min(best, dearest);
  }
  return best;
}

TEST(StageCutTest, IsAsGoodAsTheBestOfAllCuts) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const uint32_t blocks = 1 + random() % 9;
    const uint32_t stages = 1 + random() % blocks;
    std::vector<double> work;
    std::vector<double> entry;
    std::vector<double> pace;
    std::vector<uint32_t> room;
    for (uint32_t b = 0; b < blocks; ++b) {
      work.push_back(random() % 10);
      entry.push_back(random() % 20);
      pace.push_back(1 + random() % 3);
      room.push_back(1 + random() % blocks);
    }
    std::vector<bool> forbidden(100);
    for (uint32_t i = 0; i < 100; ++i) forbidden[i] = trial % 2 == 1 && random() % 3 == 0;
    const StageCosts costs = [&](uint32_t stage, uint32_t first, uint32_t end) {
      StageCost cost = SumOf(work)(stage, first, end);
      cost.load *= pace[stage];
      if (end - first > room[stage]) cost.load = kImpossible;
      if (first > 0) cost.other = entry[first];
      // Such as a stage between two wide boundaries.
      if (forbidden[first * 10 + end]) cost.other = kImpossible;
      return cost;
    };
    const double best = BestByTrying(blocks, stages, costs);
    const auto cut = CutBlocks(blocks, stages, costs);
    ASSERT_EQ(cut.ok(), best != kImpossible) << trial;
    if (!cut.ok()) continue;
    double dearest = 0;
    for (uint32_t s = 0; s < stages; ++s) {
      const uint32_t first = (*cut)[s].first_block();
      const StageCost cost = costs(s, first, first + (*cut)[s].block_count());
      dearest = std::max({dearest, cost.load, cost.other});
    }
    EXPECT_EQ(dearest, best) << trial;
  }
}

TEST(StageCutTest, LooksPastAStageThatMustNotBeThoughALargerOneMight) {
  const auto cut = CutBlocks(4, 2, [](uint32_t stage, uint32_t first, uint32_t end) {
    StageCost cost{static_cast<double>(end - first), 0};
    if (stage == 0 && end > 1) cost.load = kImpossible;
    if (stage == 1 && first != 1) cost.other = kImpossible;
    return cost;
  });
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_THAT(Counts(*cut), ElementsAre(1, 3));
}

TEST(StageCutTest, FindsTheBestOfThousandsOfBlocksInFewLooks) {
  uint64_t looks = 0;
  const auto cut = CutBlocks(4096, 64, [&](uint32_t, uint32_t first, uint32_t end) {
    ++looks;
    return StageCost{static_cast<double>(end - first), 0};
  });
  EXPECT_THAT(Counts(*cut), ::testing::Each(64));
  EXPECT_LT(looks, 1u << 20);
}

TEST(StageCutTest, KeepsBlocksTogetherWhenThereIsTooMuchToLookAt) {
  uint64_t looks = 0;
  // All cuts are as good, but for those with less than 40 blocks in a stage; nothing is too much.
  const auto cut = CutBlocks(4096, 64, [&](uint32_t, uint32_t first, uint32_t end) {
    ++looks;
    return StageCost{0, end - first < 40 ? 1.0 : 0.0};
  });
  ASSERT_TRUE(cut.ok()) << cut.status();
  for (const uint32_t count : Counts(*cut)) EXPECT_GE(count, 40u);
  EXPECT_LT(looks, 1u << 24);
  // The same when none is possible.
  looks = 0;
  const auto none = CutBlocks(4096, 64, [&](uint32_t stage, uint32_t, uint32_t) {
    ++looks;
    return StageCost{0, stage == 63 ? kImpossible : 0};
  });
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LT(looks, 1u << 24);
}

TEST(StageCutTest, CutsByTheNamesOfTheBlocksThatBeginAStage) {
  const v1::ModelLayout layout = ChainLayout(1, std::vector<BlockSizes>(5));
  v1::PipelineSpec pipeline;
  pipeline.add_cut("b1");
  pipeline.add_cut("b4");
  EXPECT_THAT(Counts(*CutByNames(pipeline, layout)), ElementsAre(1, 3, 1));
  EXPECT_THAT(Counts(*CutByNames(v1::PipelineSpec(), layout)), ElementsAre(5));
}

TEST(StageCutTest, RefusesCutsThatAreNoBlocksOrNotInOrder) {
  const v1::ModelLayout layout = ChainLayout(1, std::vector<BlockSizes>(5));
  const auto refuse = [&](const std::vector<std::string>& cuts) {
    v1::PipelineSpec pipeline;
    for (const std::string& cut : cuts) pipeline.add_cut(cut);
    const auto stages = CutByNames(pipeline, layout);
    EXPECT_EQ(stages.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(stages.status().message());
  };
  EXPECT_EQ(refuse({"b2", "x"}),
            "pipeline.cut[1]: found \"x\", which is no block, expected a block behind \"b2\"");
  EXPECT_EQ(refuse({"b2", "b2"}), "pipeline.cut[1]: found \"b2\", expected a block behind \"b2\"");
  EXPECT_EQ(refuse({"b0"}), "pipeline.cut[0]: found \"b0\", expected a block behind \"b0\"");
}

}  // namespace
}  // namespace sangam
