#include "common/plan/pipeline_layout.h"

#include <cstdint>
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

using testing::ChainLayout;
using ::testing::HasSubstr;
using testing::StagesOf;

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
  for (const v1::Schedule schedule :
       {v1::SCHEDULE_UNSPECIFIED, v1::GPIPE, v1::ONE_F_ONE_B, v1::INTERLEAVED, v1::ZERO_BUBBLE}) {
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
            "plan.schedule: found 77, expected GPIPE, ONE_F_ONE_B, INTERLEAVED or ZERO_BUBBLE");
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
