#include "worker/core/flow_map.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/flow_plan.h"
#include "worker/core/flow_tag.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Edges(const FlowMap& map) {
  std::string text;
  for (const FlowEdge& edge : map.edges()) {
    absl::StrAppend(&text, edge.boundary.id, ":", edge.from_worker, ">", edge.to_worker, " ");
  }
  return text;
}

TEST(FlowMapTest, MiddleWorkerOfAReplicaDealsWithItsOwnNeighbours) {
  testing::FlowPlan flow;
  flow.ranks = 3;
  flow.replicas = 2;
  const FlowMap map = FlowMap::Create(testing::MakePlan(flow), 4, 1).value();
  EXPECT_EQ(Edges(map), "0:3>4 1:4>5 ");
  EXPECT_THAT(map.PeersBehind(), ElementsAre(5));
  EXPECT_THAT(map.PeersInFront(), ElementsAre(3));
}

TEST(FlowMapTest, InterleavedWorkersSendActivationsBothWays) {
  testing::FlowPlan flow;
  flow.chunks = 2;
  const FlowMap map = FlowMap::Create(testing::MakePlan(flow), 0, 1).value();
  EXPECT_EQ(Edges(map), "0:0>1 1:1>0 2:0>1 ");
  EXPECT_THAT(map.PeersBehind(), ElementsAre(1));
  EXPECT_THAT(map.PeersInFront(), ElementsAre(1));
}

TEST(FlowMapTest, StagesOfOneWorkerHaveAnEdgeToItself) {
  testing::FlowPlan flow;
  flow.chunks = 2;
  flow.skips = {{0, 2}};  // both on worker 0
  const FlowMap map = FlowMap::Create(testing::MakePlan(flow), 0, 1).value();
  EXPECT_EQ(Edges(map), "0:0>1 1:1>0 2:0>1 6:0>0 ");
  EXPECT_THAT(map.PeersBehind(), ElementsAre(1));
}

TEST(FlowMapTest, WorkerWithoutSharesHasNoEdges) {
  v1::Plan plan = testing::MakePlan({});
  plan.mutable_worker(0)->mutable_shares()->set_end(0);
  EXPECT_THAT(FlowMap::Create(plan, 0, 1).value().edges(), IsEmpty());
}

TEST(FlowMapTest, RoutesGoByLane) {
  const FlowMap map = FlowMap::Create(testing::MakePlan({}), 0, 2).value();
  EXPECT_EQ(map.RouteOf({5, false, 3, 0, FlowDirection::kBackward}).value().lane, 0);
  EXPECT_EQ(map.RouteOf({5, false, 4, 0, FlowDirection::kForward}).value().lane, 1);
  EXPECT_EQ(map.RouteOf({5, true, 3, 0, FlowDirection::kForward}).value().lane, 1);
  const absl::Status backward = map.RouteOf({5, true, 3, 0, FlowDirection::kBackward}).status();
  EXPECT_THAT(std::string(backward.message()), HasSubstr("gradient of an evaluation"));
}

TEST(FlowMapTest, PlansThatDoNotFitAreRefused) {
  v1::Plan plan = testing::MakePlan({});
  EXPECT_EQ(FlowMap::Create(plan, 2, 1).status().message(),
            "worker: found 2, expected less than 2");
  EXPECT_THAT(std::string(FlowMap::Create(plan, 0, 0).status().message()), HasSubstr("lanes"));
  EXPECT_THAT(std::string(FlowMap::Create(plan, 0, 1).value().EdgeOf(1).status().message()),
              HasSubstr("boundary: found 1"));
  plan.mutable_worker(1)->mutable_shares()->set_end(3);
  EXPECT_THAT(std::string(FlowMap::Create(plan, 0, 1).status().message()),
              HasSubstr("found none of rank 1"));
  plan.mutable_worker(0)->mutable_shares()->set_end(9);
  EXPECT_THAT(std::string(FlowMap::Create(plan, 0, 1).status().message()),
              HasSubstr("found [0,9), expected a part of [0,4)"));
}

TEST(FlowTagTest, TextsSayWhichTensor) {
  EXPECT_EQ(ToString(FlowTag{7, false, 3, 1, FlowDirection::kForward}),
            "forward boundary 1, micro-batch 3 of step 7");
  EXPECT_EQ(ToString(FlowTag{7, true, 3, 1, FlowDirection::kForward}),
            "forward boundary 1, chunk 3 of the evaluation of step 7");
  EXPECT_EQ(ToString(FlowTag{7, false, 3, 1, FlowDirection::kBackward}),
            "backward boundary 1, micro-batch 3 of step 7");
  EXPECT_EQ(ToString(FlowShape{2, 3}), "[2, 3]");
}

}  // namespace
}  // namespace sangam
