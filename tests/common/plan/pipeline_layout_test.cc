#include "common/plan/pipeline_layout.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

}  // namespace
}  // namespace sangam
