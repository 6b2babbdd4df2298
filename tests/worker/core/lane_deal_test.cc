#include "worker/core/lane_deal.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/batch_cut.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/flow_plan.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int> LanesOfMicroBatches(const LaneDeal& deal, uint32_t micro_batches) {
  std::vector<int> lanes;
  for (uint32_t m = 0; m < micro_batches; ++m) {
    const absl::StatusOr<uint32_t> lane = deal.LaneOfMicroBatch(m);
    lanes.push_back(lane.ok() ? static_cast<int>(*lane) : -1);
  }
  return lanes;
}

TEST(LaneDealTest, DealsRunsOfSharesAndTheirMicroBatches) {
  testing::FlowPlan flow;
  flow.micro_batches = 12;
  flow.shares = 6;
  flow.replicas = 2;
  const v1::Plan plan = testing::MakePlan(flow);
  const LaneDeal first(plan, 0, 2);
  EXPECT_EQ(first.SharesOf(0), (IndexRange{0, 1}));
  EXPECT_EQ(first.SharesOf(1), (IndexRange{1, 3}));
  EXPECT_THAT(LanesOfMicroBatches(first, 12),
              ElementsAre(0, 0, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1));
  // The other pipeline; rank 1 of it deals as rank 0.
  const LaneDeal last(plan, 3, 2);
  EXPECT_THAT(LanesOfMicroBatches(last, 12), ElementsAre(-1, -1, -1, -1, -1, -1, 0, 0, 1, 1, 1, 1));
}

TEST(LaneDealTest, MoreLanesThanSharesLeaveSomeWithoutWork) {
  testing::FlowPlan flow;
  flow.micro_batches = 4;
  flow.shares = 2;
  const LaneDeal deal(testing::MakePlan(flow), 0, 3);
  const std::vector<int> lanes = LanesOfMicroBatches(deal, 4);
  EXPECT_EQ(lanes[0], lanes[1]);
  EXPECT_EQ(lanes[2], lanes[3]);
  EXPECT_NE(lanes[1], lanes[2]);
}

TEST(LaneDealTest, DealsChunksOfItsPartInTurn) {
  testing::FlowPlan flow;
  flow.replicas = 2;
  const LaneDeal deal(testing::MakePlan(flow), 2, 3);  // part 1 of 2
  EXPECT_EQ(deal.LaneOfChunk(1).value(), 0);
  EXPECT_EQ(deal.LaneOfChunk(3).value(), 1);
  EXPECT_EQ(deal.LaneOfChunk(5).value(), 2);
  EXPECT_EQ(deal.LaneOfChunk(7).value(), 0);
  const absl::Status foreign = deal.LaneOfChunk(4).status();
  EXPECT_EQ(foreign.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(foreign.message()), HasSubstr("found 4, expected one of part 1 of 2"));
}

TEST(LaneDealTest, ForeignMicroBatchIsRefused) {
  const LaneDeal deal(testing::MakePlan({}), 0, 2);
  const absl::Status status = deal.LaneOfMicroBatch(8).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("found 8, expected one of the shares [0,4)"));
}

}  // namespace
}  // namespace sangam
