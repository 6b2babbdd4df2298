#include "server/core/planner.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/model/model_layout.h"
#include "common/plan/page_map.h"
#include "common/plan/plan_shape.h"
#include "common/plan/server_memory.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/forecast.pb.h"
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
  EXPECT_EQ(plan.ranks(), 1u);
  EXPECT_EQ(plan.worker(0).rank(), 0u);
  EXPECT_EQ(plan.micro_batches(), 4u);
  EXPECT_EQ(plan.shares(), 4u);
  EXPECT_EQ(plan.page_elements(), kPageElements / 2);
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
  const auto plan = MakePlan({9, 4, {{"b", 5, "h:2"}, {"a", 6, "h:3"}}, {{"s", 7, "h:1"}}, {}},
                             spec, LayoutOf(spec));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->job(), 9u);
  EXPECT_EQ(plan->generation(), 4u);
  EXPECT_EQ(plan->worker(0).name(), "b");
  EXPECT_EQ(plan->worker(0).incarnation(), 5u);
  EXPECT_EQ(plan->worker(0).address(), "h:2");
  EXPECT_EQ(plan->worker(1).name(), "a");
  EXPECT_EQ(plan->worker(1).address(), "h:3");
  EXPECT_EQ(plan->server(0).name(), "s");
  EXPECT_EQ(plan->server(0).incarnation(), 7u);
  EXPECT_EQ(plan->server(0).address(), "h:1");
}

// Two pipelines of two workers, the fifth worker idle; pages by size: the larger segment on the
// first server.
constexpr char kHybridPlan[] = R"pb(
  job: 9
  generation: 4
  stage { block_count: 1 }
  stage { first_block: 1 block_count: 1 }
  worker {
    name: "w-0"
    incarnation: 1
    address: "h:0"
    rank: 0
    shares { begin: 0 end: 2 }
    evaluation_part: 0
    evaluation_parts: 2
  }
  worker {
    name: "w-1"
    incarnation: 1
    address: "h:1"
    rank: 1
    shares { begin: 0 end: 2 }
    evaluation_part: 0
    evaluation_parts: 2
  }
  worker {
    name: "w-2"
    incarnation: 1
    address: "h:2"
    rank: 0
    shares { begin: 2 end: 4 }
    evaluation_part: 1
    evaluation_parts: 2
  }
  worker {
    name: "w-3"
    incarnation: 1
    address: "h:3"
    rank: 1
    shares { begin: 2 end: 4 }
    evaluation_part: 1
    evaluation_parts: 2
  }
  worker {
    name: "w-4"
    incarnation: 1
    address: "h:4"
    rank: 0
    shares { begin: 4 end: 4 }
  }
  server { name: "s-0" incarnation: 2 address: "h:8" }
  server { name: "s-1" incarnation: 3 address: "h:9" }
  page_elements: 131072
  segment_pages { server: 0 }
  segment_pages { server: 1 }
  micro_batches: 4
  shares: 4
  ranks: 2
  schedule: ZERO_BUBBLE
  credits: 3
  lanes: 2
)pb";

TEST(PlannerTest, TheForecastOfAHybridBecomesPipelinesOfNeighbours) {
  const v1::JobSpec spec = SmallJob("job", 5, 2);
  v1::StrategyForecast forecast;
  forecast.set_ranks(2);
  forecast.set_replicas(2);
  forecast.set_schedule(v1::ZERO_BUBBLE);
  forecast.set_credits(3);
  forecast.set_lanes(2);
  forecast.add_stage()->set_block_count(1);
  forecast.add_stage()->set_first_block(1);
  forecast.mutable_stage(1)->set_block_count(1);
  PlanRequest request;
  request.job = 9;
  request.generation = 4;
  for (uint32_t w = 0; w < 5; ++w) {
    request.workers.push_back({absl::StrCat("w-", w), 1, absl::StrCat("h:", w)});
  }
  request.servers = {{"s-0", 2, "h:8"}, {"s-1", 3, "h:9"}};
  request.shape = ShapeOf(forecast);
  auto plan = MakePlan(request, spec, LayoutOf(spec));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->schema_hash(), SchemaHash(spec, LayoutOf(spec)));
  v1::Plan expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kHybridPlan, &expected));
  plan->clear_layout();
  plan->clear_schema_hash();
  EXPECT_EQ(plan->DebugString(), expected.DebugString());
}

TEST(PlannerTest, RefusesAShapeThatDoesNotFitTheWorkers) {
  const v1::JobSpec spec = SmallJob("job", 1, 1);
  PlanRequest request;
  request.workers = {{"w-0", 1, "h:0"}};
  request.servers = {{"s-0", 1, "h:8"}};
  request.shape.ranks = 2;
  const auto plan = MakePlan(request, spec, LayoutOf(spec));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << plan.status();
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

}  // namespace
}  // namespace sangam
