#include "common/plan/plan_shape.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "tests/common/plan/plan_fixtures.h"

namespace sangam {
namespace {

using testing::BlockSizes;
using testing::ChainLayout;
using ::testing::HasSubstr;
using testing::JobOf;
using testing::StagesOf;
using testing::WorkersOf;

// "w-0 rank 0 shares [0,2) part 0/2", one line for each worker.
std::string Workers(const v1::Plan& plan) {
  std::string text;
  for (const v1::WorkerPlan& worker : plan.worker()) {
    absl::StrAppend(&text, worker.name(), " rank ", worker.rank(), " shares [",
                    worker.shares().begin(), ",", worker.shares().end(), ") part ",
                    worker.evaluation_part(), "/", worker.evaluation_parts(), "\n");
  }
  return text;
}

std::vector<BlockSizes> Blocks(uint32_t count) { return std::vector<BlockSizes>(count); }

TEST(PlanShapeTest, IsDataParallelOverAllWorkersByDefault) {
  const v1::JobSpec spec = JobOf(8, 4, 4);
  const auto plan = SpreadJob({}, WorkersOf(3), spec, ChainLayout(1, Blocks(2)));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Workers(*plan),
            "w-0 rank 0 shares [0,1) part 0/3\n"
            "w-1 rank 0 shares [1,2) part 1/3\n"
            "w-2 rank 0 shares [2,4) part 2/3\n");
  ASSERT_EQ(plan->stage_size(), 1);
  EXPECT_EQ(plan->stage(0).block_count(), 2u);
  EXPECT_EQ(plan->ranks(), 1u);
  EXPECT_EQ(plan->lanes(), 0u);
  EXPECT_EQ(plan->credits(), 1u);
  EXPECT_EQ(plan->schedule(), v1::ONE_F_ONE_B);
  EXPECT_EQ(plan->micro_batches(), 4u);
  EXPECT_EQ(plan->shares(), 4u);
  EXPECT_EQ(plan->worker(1).incarnation(), 11u);
  EXPECT_EQ(plan->worker(1).address(), "h-1:7");
}

TEST(PlanShapeTest, PutsNeighboursOfTheListIntoOnePipelineAndLeavesTheRestIdle) {
  PlanShape shape;
  shape.ranks = 2;
  shape.replicas = 2;
  shape.schedule = v1::GPIPE;
  shape.credits = 3;
  shape.lanes = 2;
  shape.stages = StagesOf({1, 2});
  const auto plan = SpreadJob(shape, WorkersOf(5), JobOf(8, 8, 5), ChainLayout(1, Blocks(3)));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Workers(*plan),
            "w-0 rank 0 shares [0,2) part 0/2\n"
            "w-1 rank 1 shares [0,2) part 0/2\n"
            "w-2 rank 0 shares [2,5) part 1/2\n"
            "w-3 rank 1 shares [2,5) part 1/2\n"
            "w-4 rank 0 shares [5,5) part 0/0\n");
  EXPECT_EQ(plan->schedule(), v1::GPIPE);
  EXPECT_EQ(plan->credits(), 3u);
  EXPECT_EQ(plan->lanes(), 2u);
}

TEST(PlanShapeTest, MoreWorkersThanSharesAreIdle) {
  const auto plan = SpreadJob({}, WorkersOf(3), JobOf(8, 4, 2), ChainLayout(1, Blocks(1)));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Workers(*plan),
            "w-0 rank 0 shares [0,1) part 0/2\n"
            "w-1 rank 0 shares [1,2) part 1/2\n"
            "w-2 rank 0 shares [2,2) part 0/0\n");
}

TEST(PlanShapeTest, NobodyEvaluatesWhenEvaluationIsOff) {
  v1::JobSpec spec = JobOf(8, 4, 4);
  spec.mutable_evaluation()->set_off(true);
  const auto plan = SpreadJob({}, WorkersOf(2), spec, ChainLayout(1, Blocks(1)));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Workers(*plan),
            "w-0 rank 0 shares [0,2) part 0/0\n"
            "w-1 rank 0 shares [2,4) part 0/0\n");
}

TEST(PlanShapeTest, RefusesWhatDoesNotFitWithBothNumbers) {
  const auto refuse = [](const PlanShape& shape, uint32_t workers, uint32_t shares) {
    const auto plan =
        SpreadJob(shape, WorkersOf(workers), JobOf(8, 8, shares), ChainLayout(1, Blocks(2)));
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  };
  PlanShape shape;
  shape.ranks = 2;
  shape.replicas = 2;
  shape.stages = StagesOf({1, 1});
  EXPECT_THAT(refuse(shape, 3, 4), HasSubstr("found 3, expected at least 2 pipelines of 2"));
  EXPECT_THAT(refuse(shape, 4, 1), HasSubstr("found 2, expected at most the 1 shares"));
  shape.stages = StagesOf({1, 2});
  EXPECT_THAT(refuse(shape, 4, 4), HasSubstr("found 3 blocks in all, expected the model's 2"));
  shape.ranks = 0;
  EXPECT_THAT(refuse(shape, 4, 4), HasSubstr("ranks: found 0"));
  EXPECT_THAT(refuse(PlanShape(), 0, 4), HasSubstr("found 0, expected at least 1 pipelines of 1"));
}

TEST(PlanShapeTest, FollowsFromTheForecast) {
  v1::StrategyForecast forecast;
  forecast.set_ranks(2);
  forecast.set_replicas(3);
  forecast.set_schedule(v1::ZERO_BUBBLE);
  forecast.set_credits(4);
  forecast.set_lanes(5);
  forecast.add_stage()->set_block_count(2);
  forecast.add_stage()->set_first_block(2);
  forecast.mutable_stage(1)->set_block_count(1);
  const PlanShape shape = ShapeOf(forecast);
  EXPECT_EQ(shape.ranks, 2u);
  EXPECT_EQ(shape.replicas, 3u);
  EXPECT_EQ(shape.schedule, v1::ZERO_BUBBLE);
  EXPECT_EQ(shape.credits, 4u);
  EXPECT_EQ(shape.lanes, 5u);
  ASSERT_EQ(shape.stages.size(), 2u);
  EXPECT_EQ(shape.stages[0].block_count(), 2u);
  EXPECT_EQ(shape.stages[1].first_block(), 2u);
  EXPECT_EQ(shape.stages[1].block_count(), 1u);
}

}  // namespace
}  // namespace sangam
