#include "common/plan/server_memory.h"

#include <algorithm>
#include <cstdint>

#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using testing::LayoutOf;
using testing::PlanOf;
using testing::SmallJob;

TEST(ServerMemoryTest, CountsWeightsAndOptimizerState) {
  // 4 x 8 + 8 + 8 x 3 + 3 = 67 weights; with momentum 12 bytes each.
  const v1::JobSpec spec = SmallJob("job", 1, 1);
  const v1::Plan plan = PlanOf(spec);
  EXPECT_EQ(TrainingBytes(plan, spec), (ServerBytes{{"s-1", 12 * 67}}));
  EXPECT_EQ(KeptBytes(plan), (ServerBytes{{"s-1", 4 * 67}}));
  EXPECT_EQ(LargestServerBytes(spec, LayoutOf(spec)), 12u * 67);
}

TEST(ServerMemoryTest, CountsTheCopiesThatCheckpointsAskFor) {
  v1::JobSpec spec = SmallJob("job", 1, 1);
  const v1::Plan plan = PlanOf(spec);
  // One of the state in the near future; of fixed steps the next one is copied while one is
  // written.
  spec.mutable_checkpoint()->set_every_seconds(5);
  EXPECT_EQ(TotalOf(TrainingBytes(plan, spec)), (12u + 8) * 67);
  spec.mutable_checkpoint()->set_every_steps(5);
  EXPECT_EQ(TotalOf(TrainingBytes(plan, spec)), (12u + 2 * 8) * 67);
  EXPECT_EQ(LargestServerBytes(spec, LayoutOf(spec)), (12u + 2 * 8) * 67);
}

TEST(ServerMemoryTest, TheLargestPartIsThatOfThePlan) {
  for (uint32_t servers = 1; servers <= 5; ++servers) {
    v1::JobSpec spec = SmallJob("job", 1, servers);
    // Several pages, the last ones smaller.
    spec.mutable_model()->mutable_block(0)->mutable_layer(1)->mutable_linear()->set_out_features(
        200'000);
    const ServerBytes bytes = TrainingBytes(PlanOf(spec), spec);
    EXPECT_EQ(bytes.size(), servers);
    uint64_t largest = 0;
    for (const auto& [server, count] : bytes) largest = std::max(largest, count);
    EXPECT_EQ(LargestServerBytes(spec, LayoutOf(spec)), largest) << servers;
    EXPECT_EQ(TotalOf(bytes), 12 * LayoutOf(spec).parameter_count());
  }
}

TEST(ServerMemoryTest, TrainingNeedsTwoVersionsAndTheOptimizersState) {
  v1::JobSpec spec;
  v1::OptimizerSpec& optimizer = *spec.mutable_optimizer();
  optimizer.mutable_sgd();
  EXPECT_EQ(TrainingBytesPerElement(spec), 8u);
  optimizer.mutable_momentum();
  EXPECT_EQ(TrainingBytesPerElement(spec), 12u);
  optimizer.mutable_adamw();
  EXPECT_EQ(TrainingBytesPerElement(spec), 16u);
  optimizer.mutable_rmsprop()->set_centered(true);
  EXPECT_EQ(TrainingBytesPerElement(spec), 16u);
  optimizer.mutable_rmsprop()->set_momentum(0.5f);
  EXPECT_EQ(TrainingBytesPerElement(spec), 20u);
}

}  // namespace
}  // namespace sangam
