#include "common/plan/pipeline_layout.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "tests/common/plan/plan_fixtures.h"

namespace sangam {
namespace {

using testing::ChainLayout;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StagesOf;

// Six blocks of 3 elements: an embedding (block 0), blocks with and without parameters, a head
// (block 5) that shares the embedding's segment. Block 4 adds the output of block 1. Two ranks with
// two stages each: [0], [1, 2], [3], [4, 5]; two pipelines, and a worker too many.
v1::Plan MakePlan() {
  v1::Plan plan;
  plan.set_ranks(2);
  plan.set_schedule(v1::INTERLEAVED);
  uint32_t first = 0;
  for (const uint32_t count : {1u, 2u, 1u, 2u}) {
    v1::StagePlan* stage = plan.add_stage();
    stage->set_first_block(first);
    stage->set_block_count(count);
    first += count;
  }
  for (uint32_t b = 0; b < 6; ++b) {
    v1::BlockLayout* block = plan.mutable_layout()->add_block();
    block->add_input_shape(3);
    block->add_output_shape(3);
    block->set_segment(-1);
    if (b == 2 || b == 4) continue;
    block->set_segment(plan.layout().segment_size());
    v1::SegmentLayout* segment = plan.mutable_layout()->add_segment();
    segment->set_block(b);
    segment->add_use(b);
  }
  plan.mutable_layout()->mutable_segment(0)->add_use(5);
  plan.mutable_layout()->mutable_block(5)->set_tied_segment(0);
  plan.mutable_layout()->mutable_block(4)->set_skip_from(1);
  for (uint32_t w = 0; w < 5; ++w) {
    v1::WorkerPlan* worker = plan.add_worker();
    worker->set_name(absl::StrCat("w", w));
    worker->set_rank(w % 2);
    worker->mutable_shares()->set_begin(w / 2 * 4);
    worker->mutable_shares()->set_end(w == 4 ? 8 : w / 2 * 4 + 4);
  }
  return plan;
}

TEST(PipelineLayoutTest, StagesGoRoundTheRanks) {
  const v1::Plan plan = MakePlan();
  ASSERT_TRUE(CheckStages(plan).ok()) << CheckStages(plan);
  EXPECT_EQ(ChunksOf(plan), 2u);
  EXPECT_EQ(StageOf(plan, 1, 1), 3u);
  EXPECT_EQ(StageOfBlock(plan, 0), 0u);
  EXPECT_EQ(StageOfBlock(plan, 2), 1u);
  EXPECT_EQ(StageOfBlock(plan, 5), 3u);
  EXPECT_THAT(BlocksOf(plan, 0), ElementsAre(0, 3));
  EXPECT_THAT(BlocksOf(plan, 3), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(BlocksOf(plan, 4), IsEmpty());
  EXPECT_TRUE(HasFirstBlock(plan, 2));
  EXPECT_FALSE(HasLastBlock(plan, 2));
  EXPECT_TRUE(HasLastBlock(plan, 3));
  EXPECT_FALSE(HasFirstBlock(plan, 4));
}

TEST(PipelineLayoutTest, UsesAreTheWorkersOwnAndSharedParameters) {
  const v1::Plan plan = MakePlan();
  const std::vector<ParameterUse> first = UsesOf(plan, 0);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].segment, 0u);
  EXPECT_EQ(first[0].use, 0u);
  EXPECT_FALSE(first[0].tied);
  EXPECT_EQ(first[1].segment, 2u);
  const std::vector<ParameterUse> last = UsesOf(plan, 1);
  ASSERT_EQ(last.size(), 3u);
  EXPECT_EQ(last[1].block, 5u);
  EXPECT_EQ(last[1].segment, 3u);
  EXPECT_EQ(last[2].segment, 0u);
  EXPECT_EQ(last[2].use, 1u);
  EXPECT_TRUE(last[2].tied);
  EXPECT_THAT(SegmentsOf(plan, 1), ElementsAre(0, 1, 3));
  EXPECT_THAT(SegmentsOf(plan, 4), IsEmpty());
}

TEST(PipelineLayoutTest, BoundariesAreWhereStagesMeetAndWhereSkipsCross) {
  const std::vector<Boundary> boundaries = BoundariesOf(MakePlan());
  std::vector<uint32_t> ids;
  for (const Boundary& boundary : boundaries) ids.push_back(boundary.id);
  // After blocks 0, 2 and 3; block 4's skip connection from stage 1 to stage 3.
  ASSERT_THAT(ids, ElementsAre(0, 2, 3, 10));
  EXPECT_EQ(boundaries[1].to_block, 3u);
  EXPECT_EQ(boundaries[1].from_stage, 1u);
  EXPECT_EQ(boundaries[1].to_stage, 2u);
  EXPECT_EQ(boundaries[1].columns, 3u);
  EXPECT_EQ(boundaries[3].from_block, 1u);
  EXPECT_EQ(boundaries[3].from_stage, 1u);
  EXPECT_EQ(boundaries[3].to_stage, 3u);
}

TEST(PipelineLayoutTest, PeersHaveTheSameShares) {
  v1::Plan plan = MakePlan();
  EXPECT_EQ(PeerOf(plan, 0, 1).value(), 1u);
  EXPECT_EQ(PeerOf(plan, 3, 0).value(), 2u);
  plan.mutable_worker(2)->mutable_shares()->set_end(7);
  EXPECT_THAT(std::string(PeerOf(plan, 3, 0).status().message()),
              HasSubstr("none of rank 0 with the shares [4,8) of worker \"w3\""));
}

TEST(PipelineLayoutTest, RefusesWhatContradictsItself) {
  const auto refused = [](const v1::Plan& plan, const std::string& words) {
    const absl::Status status = CheckStages(plan);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  };
  v1::Plan plan = MakePlan();
  plan.set_ranks(3);
  refused(plan, "plan.ranks: found 3 for 4 stages");
  plan = MakePlan();
  plan.mutable_stage(2)->set_first_block(4);
  refused(plan, "plan.stage[2]: found 1 blocks from 4");
  plan = MakePlan();
  plan.mutable_stage(3)->set_block_count(1);
  refused(plan, "found 5 blocks in all");
  plan = MakePlan();
  plan.mutable_worker(1)->set_rank(2);
  refused(plan, "rank of worker \"w1\": found 2");
  plan = MakePlan();
  plan.mutable_layout()->mutable_segment(0)->mutable_use()->RemoveLast();
  refused(plan, "block[5].tied_segment");
  plan = MakePlan();
  plan.mutable_layout()->mutable_block(1)->set_segment(9);
  refused(plan, "block[1].segment: found 9");
  plan = MakePlan();
  plan.mutable_layout()->mutable_block(4)->set_skip_from(3);
  refused(plan, "block[4].skip_from: found 3");
}

v1::Plan PlanOf(const v1::ModelLayout& layout, const std::vector<uint32_t>& counts, uint32_t ranks,
                v1::Schedule schedule) {
  v1::Plan plan;
  *plan.mutable_layout() = layout;
  for (const v1::StagePlan& stage : StagesOf(counts)) *plan.add_stage() = stage;
  plan.set_ranks(ranks);
  plan.set_schedule(schedule);
  return plan;
}

std::string Refusal(const v1::Plan& plan) {
  const absl::Status status = CheckStages(plan);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(PipelineLayoutTest, SeveralStagesOnAWorkerAreInterleaved) {
  const v1::ModelLayout layout = ChainLayout(1, {{1}, {1}, {1}, {1}});
  for (const v1::Schedule schedule : {v1::SCHEDULE_UNSPECIFIED, v1::GPIPE, v1::ONE_F_ONE_B,
                                      v1::INTERLEAVED, v1::ZERO_BUBBLE, v1::EAGER_ONE_F_ONE_B}) {
    const absl::Status status = CheckStages(PlanOf(layout, {2, 2}, 2, schedule));
    EXPECT_TRUE(status.ok()) << status;
    if (schedule == v1::INTERLEAVED) continue;
    EXPECT_EQ(Refusal(PlanOf(layout, {1, 1, 1, 1}, 2, schedule)),
              "plan.schedule: found " + v1::Schedule_Name(schedule) +
                  " with 2 stages on each worker, expected INTERLEAVED");
  }
  EXPECT_TRUE(CheckStages(PlanOf(layout, {1, 1, 1, 1}, 2, v1::INTERLEAVED)).ok());
}

TEST(PipelineLayoutTest, RefusesAScheduleThatIsUnknown) {
  EXPECT_EQ(Refusal(PlanOf(ChainLayout(1, {{1}}), {1}, 1, static_cast<v1::Schedule>(77))),
            "plan.schedule: found 77, expected GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE or "
            "EAGER_ONE_F_ONE_B");
}

TEST(PipelineLayoutTest, ABlockReadsAsMuchAsTheOneInFrontMakes) {
  v1::ModelLayout layout = ChainLayout(3, {{4}, {6}, {2}});
  // The shape may differ.
  layout.mutable_block(2)->clear_input_shape();
  for (const uint64_t dimension : {2, 3}) layout.mutable_block(2)->add_input_shape(dimension);
  EXPECT_TRUE(CheckStages(PlanOf(layout, {2, 1}, 2, v1::GPIPE)).ok());
  layout.mutable_block(2)->set_input_shape(0, 3);
  EXPECT_EQ(Refusal(PlanOf(layout, {2, 1}, 2, v1::GPIPE)),
            "plan.layout.block[2].input_shape: found 9 elements, expected the 6 of "
            "block[1].output_shape, its input");
  // Products that do not fit 64 bits are never equal.
  layout = ChainLayout(3, {{UINT64_MAX}, {6}});
  layout.mutable_block(0)->add_output_shape(2);
  layout.mutable_block(1)->add_input_shape(4);
  EXPECT_THAT(Refusal(PlanOf(layout, {2}, 1, v1::GPIPE)), HasSubstr("block[1].input_shape"));
}

TEST(PipelineLayoutTest, ASkipConnectionAddsAsMuchAsTheBlockReads) {
  v1::ModelLayout layout = ChainLayout(3, {{4}, {5}, {4}, {4}});
  layout.mutable_block(3)->set_skip_from(0);
  EXPECT_TRUE(CheckStages(PlanOf(layout, {4}, 1, v1::GPIPE)).ok());
  layout.mutable_block(3)->set_skip_from(1);
  EXPECT_EQ(Refusal(PlanOf(layout, {4}, 1, v1::GPIPE)),
            "plan.layout.block[3].input_shape: found 4 elements, expected the 5 of "
            "block[1].output_shape, its skip_from");
}

TEST(PipelineLayoutTest, EveryBlockHasAStage) {
  const v1::Plan plan =
      PlanOf(ChainLayout(1, {{1}, {1}, {1}, {1}, {1}, {1}}), {1, 3, 2}, 3, v1::ONE_F_ONE_B);
  const std::vector<uint32_t> expected = {0, 1, 1, 1, 2, 2};
  for (uint32_t b = 0; b < expected.size(); ++b) EXPECT_EQ(StageOfBlock(plan, b), expected[b]);
}

}  // namespace
}  // namespace sangam
