#include "common/plan/cost_model.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "common/plan/plan_shape.h"
#include "common/plan/schedule_check.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "tests/common/plan/plan_fixtures.h"

namespace sangam {
namespace {

using testing::ChainLayout;
using testing::ClusterOf;
using testing::JobOf;
using testing::StagesOf;
using testing::Tie;
using testing::WorkersOf;

// Columns, parameters and flops.
v1::ModelLayout SmallLayout() { return ChainLayout(3, {{4, 10, 100}, {5, 0, 20}, {2, 6, 1000}}); }

void ExpectCost(const PassCost& cost, double forward, double input, double weights) {
  EXPECT_DOUBLE_EQ(cost.forward, forward);
  EXPECT_DOUBLE_EQ(cost.backward_input, input);
  EXPECT_DOUBLE_EQ(cost.backward_weights, weights);
}

v1::BlockTime Time(uint32_t block, double forward, double backward, uint64_t samples) {
  v1::BlockTime time;
  time.set_block(block);
  time.set_forward_seconds(forward);
  time.set_backward_seconds(backward);
  time.set_samples(samples);
  return time;
}

v1::Plan Pipeline(const std::vector<uint32_t>& counts, uint32_t ranks, uint32_t replicas,
                  const v1::ModelLayout& layout) {
  PlanShape shape;
  shape.ranks = ranks;
  shape.replicas = replicas;
  shape.lanes = 1;
  shape.stages = StagesOf(counts);
  return SpreadJob(shape, WorkersOf(ranks * replicas), JobOf(8, 4, 4), layout).value();
}

TEST(CostModelTest, BackwardCostsAForwardForTheInputAndOneForTheWeights) {
  const CostModel costs(SmallLayout(), v1::ModelSpec(), ClusterOf(1), {});
  EXPECT_FALSE(costs.measured());
  ExpectCost(costs.Cost(0, 1), 100, 0, 100);  // nobody needs the gradient of the input
  ExpectCost(costs.Cost(1, 1), 20, 20, 0);    // no weights
  ExpectCost(costs.Cost(2, 1), 1000, 1000, 1000);
  ExpectCost(costs.Cost(0, 3), 1120, 1020, 1100);
  ExpectCost(costs.Cost(1, 0), 0, 0, 0);
  EXPECT_DOUBLE_EQ(costs.Cost(0, 1).total(), 200);
}

TEST(CostModelTest, InFrontOfTheFirstParametersThereIsNoBackward) {
  const v1::ModelLayout layout = ChainLayout(3, {{4, 0, 100}, {5, 7, 20}, {2, 6, 1000}});
  v1::ModelSpec model;
  model.add_block()->set_recompute(true);
  const CostModel costs(layout, model, ClusterOf(1), {});
  ExpectCost(costs.Cost(0, 1), 100, 0, 0);
  ExpectCost(costs.Cost(1, 1), 20, 0, 20);
  ExpectCost(costs.Cost(2, 1), 1000, 1000, 1000);
}

TEST(CostModelTest, RecomputeCostsAForwardMoreAndDoesItsBackwardAtOnce) {
  v1::ModelSpec model;
  model.add_block()->set_recompute(true);
  model.add_block();
  model.add_block()->set_recompute(true);
  const CostModel costs(SmallLayout(), model, ClusterOf(1), {});
  ExpectCost(costs.Cost(0, 1), 100, 200, 0);
  ExpectCost(costs.Cost(2, 1), 1000, 3000, 0);
}

TEST(CostModelTest, TiedWeightsHaveGradientsToo) {
  v1::ModelLayout layout = SmallLayout();
  Tie(1, &layout);
  const CostModel costs(layout, v1::ModelSpec(), ClusterOf(1), {});
  ExpectCost(costs.Cost(1, 1), 20, 20, 20);
}

TEST(CostModelTest, SpeedIsTheWorkersOrTheDefault) {
  v1::ClusterFacts cluster = ClusterOf(3);
  cluster.mutable_worker(1)->set_flops_per_second(0);
  cluster.mutable_worker(2)->set_flops_per_second(std::numeric_limits<double>::quiet_NaN());
  cluster.set_link_bytes_per_second(0);
  const CostModel costs(SmallLayout(), v1::ModelSpec(), cluster, {});
  EXPECT_DOUBLE_EQ(costs.SecondsPerUnit(0), 1e-9);
  EXPECT_DOUBLE_EQ(costs.SecondsPerUnit(1), 1 / kDefaultFlopsPerSecond);
  EXPECT_DOUBLE_EQ(costs.SecondsPerUnit(2), 1 / kDefaultFlopsPerSecond);
  EXPECT_DOUBLE_EQ(costs.TransferSeconds(1000), kMessageSeconds + 1e3 / kDefaultLinkBytesPerSecond);
  EXPECT_DOUBLE_EQ(costs.TransferSeconds(0), 0);
}

TEST(CostModelTest, MeasuredTimesReplaceTheModelAndScaleWithTheSpeedOfAWorker) {
  v1::ClusterFacts cluster = ClusterOf(2);
  cluster.mutable_worker(1)->set_flops_per_second(3e9);
  const std::vector<v1::BlockTime> times = {Time(0, 1, 4, 2), Time(1, 2, 6, 2), Time(2, 3, 8, 1)};
  const CostModel costs(SmallLayout(), v1::ModelSpec(), cluster, times);
  EXPECT_TRUE(costs.measured());
  ExpectCost(costs.Cost(0, 1), 0.5, 0, 2);
  ExpectCost(costs.Cost(1, 1), 1, 3, 0);
  ExpectCost(costs.Cost(2, 1), 3, 4, 4);
  // The mean worker does 2e9.
  EXPECT_DOUBLE_EQ(costs.SecondsPerUnit(0), 2);
  EXPECT_DOUBLE_EQ(costs.SecondsPerUnit(1), 2.0 / 3);
}

TEST(CostModelTest, MeasurementsThatAreNotOfEveryBlockAreNoMeasure) {
  const auto measured = [](const std::vector<v1::BlockTime>& times) {
    return CostModel(SmallLayout(), v1::ModelSpec(), ClusterOf(1), times).measured();
  };
  EXPECT_TRUE(measured({Time(0, 1, 1, 1), Time(1, 1, 1, 1), Time(2, 1, 1, 1)}));
  EXPECT_FALSE(measured({Time(0, 1, 1, 1), Time(2, 1, 1, 1)}));
  EXPECT_FALSE(measured({Time(0, 1, 1, 1), Time(1, 1, 1, 0), Time(2, 1, 1, 1)}));
  EXPECT_FALSE(measured({Time(0, 1, 1, 1), Time(1, -1, 1, 1), Time(2, 1, 1, 1)}));
  EXPECT_FALSE(measured({Time(0, 1, 1, 1), Time(3, 1, 1, 1), Time(2, 1, 1, 1)}));
}

TEST(CostModelTest, EveryWorkerOfDataParallelPushesAndPullsTheWholeModel) {
  const v1::JobSpec spec = JobOf(8, 4, 4);
  v1::ClusterFacts cluster = ClusterOf(2);
  const CostModel costs(SmallLayout(), spec.model(), cluster, {});
  const v1::Plan plan = SpreadJob({}, WorkersOf(2), spec, SmallLayout()).value();
  StepTraffic traffic = TrafficOf(plan, spec, cluster, costs);
  // Each worker has one span of 16 parameters.
  EXPECT_EQ(traffic.parameter_bytes, 2u * 2 * 16 * 4);
  EXPECT_EQ(traffic.activation_bytes, 0u);
  // The only server carries it all.
  EXPECT_DOUBLE_EQ(traffic.parameter_seconds, costs.TransferSeconds(2 * 2 * 16 * 4));
  cluster.set_servers(4);
  traffic = TrafficOf(plan, spec, cluster, costs);
  EXPECT_DOUBLE_EQ(traffic.parameter_seconds, costs.TransferSeconds(2 * 16 * 4));
}

TEST(CostModelTest, AWorkerPushesOnceForEachOfItsSpans) {
  const v1::JobSpec spec = JobOf(8, 4, 4);
  const v1::ClusterFacts cluster = ClusterOf(3);
  const CostModel costs(SmallLayout(), spec.model(), cluster, {});
  // [0,1), [1,2) and [2,4) are nodes of the tree.
  const v1::Plan three = SpreadJob({}, WorkersOf(3), spec, SmallLayout()).value();
  EXPECT_EQ(TrafficOf(three, spec, cluster, costs).parameter_bytes, 6u * 16 * 4);
  // Of three shares [0,1) is one and [1,3) are two: the tree is ((0 1) 2).
  const v1::Plan odd = SpreadJob({}, WorkersOf(2), JobOf(8, 4, 3), SmallLayout()).value();
  EXPECT_EQ(TrafficOf(odd, spec, cluster, costs).parameter_bytes, (3u + 2) * 16 * 4);
}

TEST(CostModelTest, StagesPushTheirOwnSegmentsAndActivationsCrossBothWays) {
  const v1::JobSpec spec = JobOf(8, 4, 4);
  const v1::ClusterFacts cluster = ClusterOf(4);
  v1::ModelLayout layout = SmallLayout();
  const CostModel costs(layout, spec.model(), cluster, {});
  const v1::Plan plan = Pipeline({1, 2}, 2, 2, layout);
  StepTraffic traffic = TrafficOf(plan, spec, cluster, costs);
  EXPECT_EQ(traffic.parameter_bytes, 2u * 2 * 16 * 4);
  EXPECT_EQ(traffic.activation_bytes, 2u * 4 * 4 * 8);
  // A tied use is pushed by its own worker, which pulls the weights too.
  Tie(2, &layout);
  traffic = TrafficOf(Pipeline({1, 2}, 2, 2, layout), spec, cluster, costs);
  EXPECT_EQ(traffic.parameter_bytes, 2u * 2 * (16 + 10) * 4);
  // A skip connection crosses as well.
  layout = ChainLayout(3, {{5, 10, 100}, {5, 0, 20}, {2, 6, 1000}});
  layout.mutable_block(2)->set_skip_from(0);
  traffic = TrafficOf(Pipeline({1, 2}, 2, 2, layout), spec, cluster, costs);
  EXPECT_EQ(traffic.activation_bytes, 2u * 2 * 5 * 4 * 8);
}

TEST(CostModelTest, TimesAreOfTheSlowestWorkerOfAStage) {
  v1::ClusterFacts cluster = ClusterOf(4);
  cluster.mutable_worker(3)->set_flops_per_second(0.5e9);  // rank 1 of the second pipeline
  const CostModel costs(SmallLayout(), v1::ModelSpec(), cluster, {});
  const std::vector<StageTimes> times = TimesOf(Pipeline({1, 2}, 2, 2, SmallLayout()), costs, 2, 3);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_DOUBLE_EQ(times[0].forward, 2 * 100e-9);
  EXPECT_DOUBLE_EQ(times[0].backward_input, 0);
  EXPECT_DOUBLE_EQ(times[0].backward_weights, 2 * 100e-9);
  EXPECT_DOUBLE_EQ(times[0].forward_transfer, costs.TransferSeconds(4 * 4 * 2 * 3));
  EXPECT_DOUBLE_EQ(times[0].backward_transfer, 0);
  EXPECT_DOUBLE_EQ(times[1].forward, 2 * 1020e-9 * 2);
  EXPECT_DOUBLE_EQ(times[1].forward_transfer, 0);
  EXPECT_DOUBLE_EQ(times[1].backward_transfer, costs.TransferSeconds(4 * 4 * 2 * 3));
}

TEST(CostModelTest, AnEntryMovesTheInputAndItsGradientOfAllLanes) {
  const v1::ModelLayout layout = SmallLayout();
  const CostModel costs(layout, v1::ModelSpec(), ClusterOf(1), {});
  EXPECT_DOUBLE_EQ(costs.EntrySeconds(layout, 2, 7, 3), 2 * costs.TransferSeconds(5 * 4 * 7 * 3));
}

}  // namespace
}  // namespace sangam
