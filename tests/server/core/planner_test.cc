#include "server/core/planner.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/model/model_layout.h"
#include "common/plan/page_map.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using testing::LayoutOf;
using testing::PlanOf;
using testing::SmallJob;

TEST(PlannerTest, DataParallelIsOneStageWithAllBlocks) {
  const v1::JobSpec spec = SmallJob("job", 2, 1);
  const v1::Plan plan = PlanOf(spec);
  ASSERT_EQ(plan.stage_size(), 1);
  EXPECT_EQ(plan.stage(0).first_block(), 0u);
  EXPECT_EQ(plan.stage(0).block_count(), 2u);
  EXPECT_EQ(plan.worker(0).stage(), 0u);
  EXPECT_EQ(plan.micro_batches(), 4u);
  EXPECT_EQ(plan.shares(), 4u);
  EXPECT_EQ(plan.page_elements(), kPageElements);
  EXPECT_EQ(plan.schema_hash(), SchemaHash(spec, LayoutOf(spec)));
  EXPECT_EQ(plan.layout().parameter_count(), LayoutOf(spec).parameter_count());
}

TEST(PlannerTest, EveryShareHasOneWorkerAndTheWorkersWithSharesEvaluate) {
  for (uint32_t workers = 1; workers <= 7; ++workers) {
    const v1::Plan plan = PlanOf(SmallJob("job", workers, 1));
    uint32_t next_share = 0;
    uint32_t next_part = 0;
    for (const v1::WorkerPlan& worker : plan.worker()) {
      EXPECT_EQ(worker.shares().begin(), next_share);
      next_share = worker.shares().end();
      if (worker.shares().begin() == worker.shares().end()) {
        EXPECT_EQ(worker.evaluation_parts(), 0u);
        continue;
      }
      EXPECT_EQ(worker.evaluation_part(), next_part++);
      EXPECT_EQ(worker.evaluation_parts(), std::min(workers, 4u));
    }
    EXPECT_EQ(next_share, 4u);
    EXPECT_EQ(next_part, std::min(workers, 4u));
  }
}

TEST(PlannerTest, NobodyEvaluatesWhenEvaluationIsOff) {
  v1::JobSpec spec = SmallJob("job", 2, 1);
  spec.mutable_evaluation()->set_off(true);
  const v1::Plan plan = PlanOf(spec);
  for (const v1::WorkerPlan& worker : plan.worker()) {
    EXPECT_EQ(worker.evaluation_parts(), 0u);
  }
}

TEST(PlannerTest, KeepsTheOrderIncarnationsAndAddressesOfTheDaemons) {
  const v1::JobSpec spec = SmallJob("job", 2, 1);
  const v1::Plan plan =
      MakePlan({9, 4, {{"b", 5, ""}, {"a", 6, ""}}, {{"s", 7, "h:1"}}}, spec, LayoutOf(spec));
  EXPECT_EQ(plan.job(), 9u);
  EXPECT_EQ(plan.generation(), 4u);
  EXPECT_EQ(plan.worker(0).name(), "b");
  EXPECT_EQ(plan.worker(0).incarnation(), 5u);
  EXPECT_EQ(plan.worker(1).name(), "a");
  EXPECT_EQ(plan.server(0).name(), "s");
  EXPECT_EQ(plan.server(0).incarnation(), 7u);
  EXPECT_EQ(plan.server(0).address(), "h:1");
}

TEST(PlannerTest, EveryPageHasAServerAndTheLoadsAddUp) {
  v1::JobSpec spec = SmallJob("job", 1, 3);
  // Ten pages and a tail.
  spec.mutable_model()->mutable_block(0)->mutable_layer(1)->mutable_linear()->set_out_features(
      10 * kPageElements / 5 + 100);
  const v1::Plan plan = PlanOf(spec);
  ASSERT_TRUE(PageMap::Create(plan).ok()) << PageMap::Create(plan).status();
  uint64_t elements = 0;
  for (uint32_t server = 0; server < 3; ++server) {
    EXPECT_GT(ServerElements(plan, server), 0u);
    elements += ServerElements(plan, server);
  }
  EXPECT_EQ(elements, plan.layout().parameter_count());
}

TEST(PlannerTest, TrainingNeedsTwoVersionsAndTheOptimizersState) {
  v1::OptimizerSpec optimizer;
  optimizer.mutable_sgd();
  EXPECT_EQ(TrainingBytesPerElement(optimizer), 8u);
  optimizer.mutable_momentum();
  EXPECT_EQ(TrainingBytesPerElement(optimizer), 12u);
  optimizer.mutable_adamw();
  EXPECT_EQ(TrainingBytesPerElement(optimizer), 16u);
}

}  // namespace
}  // namespace sangam
