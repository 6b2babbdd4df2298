#include "server/core/shard_layout.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

void AddParameter(v1::SegmentLayout* segment, uint64_t count, bool decay) {
  v1::ParameterLayout* parameter = segment->add_parameter();
  parameter->set_offset(segment->element_count());
  parameter->set_element_count(count);
  parameter->set_decay(decay);
  parameter->mutable_initializer()->mutable_constant();
  parameter->set_fan_in(1);
  segment->set_element_count(segment->element_count() + count);
}

// Two servers; a segment of 25 elements in pages of 10, and one of 4.
v1::Assignment TwoServers() {
  v1::Assignment assignment;
  assignment.set_phase(v1::Assignment::PREPARE);
  assignment.mutable_spec()->mutable_optimizer()->set_learning_rate(0.1f);
  assignment.mutable_spec()->mutable_optimizer()->mutable_momentum();
  v1::Plan* plan = assignment.mutable_plan();
  plan->set_job(1);
  plan->set_generation(1);
  plan->set_shares(4);
  plan->set_page_elements(10);
  plan->add_server()->set_name("a");
  plan->add_server()->set_name("b");
  v1::SegmentLayout* segment = plan->mutable_layout()->add_segment();
  AddParameter(segment, 18, true);
  AddParameter(segment, 7, false);
  AddParameter(plan->mutable_layout()->add_segment(), 4, true);
  for (uint32_t server : {0, 1, 0}) {
    if (plan->segment_pages_size() == 0) plan->add_segment_pages();
    plan->mutable_segment_pages(0)->add_server(server);
  }
  plan->add_segment_pages()->add_server(1);
  return assignment;
}

TEST(DecayRangesTest, AreCutToThePageAndCountedFromIt) {
  v1::SegmentLayout segment;
  AddParameter(&segment, 18, true);
  AddParameter(&segment, 7, false);
  AddParameter(&segment, 5, true);
  EXPECT_EQ(DecayRanges(segment, 0, 30), (std::vector<ElementRange>{{0, 18}, {25, 30}}));
  EXPECT_EQ(DecayRanges(segment, 10, 10), (std::vector<ElementRange>{{0, 8}}));
  EXPECT_EQ(DecayRanges(segment, 18, 7), std::vector<ElementRange>());
  EXPECT_EQ(DecayRanges(segment, 20, 10), (std::vector<ElementRange>{{5, 10}}));
}

TEST(DecayRangesTest, NeighboursAreJoined) {
  v1::SegmentLayout segment;
  AddParameter(&segment, 3, true);
  AddParameter(&segment, 4, true);
  AddParameter(&segment, 1, false);
  EXPECT_EQ(DecayRanges(segment, 0, 8), (std::vector<ElementRange>{{0, 7}}));
  EXPECT_EQ(DecayRanges(segment, 1, 4), (std::vector<ElementRange>{{0, 4}}));
}

TEST(LayOutShardTest, FindsTheServersPagesAndTheirMemory) {
  const absl::StatusOr<ShardLayout> a = LayOutShard(TwoServers(), "a");
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(a->server, 0u);
  EXPECT_EQ(a->shares, 4u);
  const std::vector<PageLayout> expected_a = {{0, 0, 10, {{0, 10}}}, {0, 20, 5, {}}};
  EXPECT_EQ(a->pages, expected_a);
  EXPECT_EQ(a->memory_bytes, 15u * 3 * 4);

  const absl::StatusOr<ShardLayout> b = LayOutShard(TwoServers(), "b");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b->server, 1u);
  const std::vector<PageLayout> expected_b = {{0, 10, 10, {{0, 8}}}, {1, 0, 4, {{0, 4}}}};
  EXPECT_EQ(b->pages, expected_b);
  EXPECT_EQ(b->memory_bytes, 14u * 3 * 4);
}

TEST(LayOutShardTest, CountsTheUsesOfASegment) {
  v1::Assignment assignment = TwoServers();
  v1::SegmentLayout* tied = assignment.mutable_plan()->mutable_layout()->mutable_segment(1);
  tied->add_use(0);
  tied->add_use(4);
  const absl::StatusOr<ShardLayout> b = LayOutShard(assignment, "b");
  ASSERT_TRUE(b.ok()) << b.status();
  ASSERT_EQ(b->pages.size(), 2u);
  EXPECT_EQ(b->pages[0].uses, 1u);  // lists none
  EXPECT_EQ(b->pages[1].uses, 2u);
  EXPECT_FALSE(b->pages == LayOutShard(TwoServers(), "b")->pages);
}

TEST(LayOutShardTest, AServerMayHoldNothing) {
  v1::Assignment assignment = TwoServers();
  assignment.mutable_plan()->add_server()->set_name("c");
  const absl::StatusOr<ShardLayout> c = LayOutShard(assignment, "c");
  ASSERT_TRUE(c.ok());
  EXPECT_TRUE(c->pages.empty());
  EXPECT_EQ(c->memory_bytes, 0u);
}

TEST(LayOutShardTest, RefusesPlansThatCannotBeLaidOut) {
  const auto refused = [](const v1::Assignment& assignment, const std::string& name,
                          const std::string& part) {
    const absl::Status status = LayOutShard(assignment, name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(part), std::string::npos) << status;
  };
  refused(TwoServers(), "z", "'z'");
  v1::Assignment assignment = TwoServers();
  assignment.mutable_plan()->set_shares(0);
  refused(assignment, "a", "plan.shares");
  assignment = TwoServers();
  assignment.mutable_plan()->set_page_elements(0);
  refused(assignment, "a", "plan.page_elements");
  assignment = TwoServers();
  assignment.mutable_plan()->set_page_elements(uint64_t{1} << 40);
  refused(assignment, "a", "plan.page_elements");
  assignment = TwoServers();
  assignment.mutable_plan()->mutable_segment_pages(0)->add_server(0);
  refused(assignment, "a", "plan.segment_pages[0]");
  const auto first_parameter = [&assignment] {
    return assignment.mutable_plan()->mutable_layout()->mutable_segment(0)->mutable_parameter(0);
  };
  assignment = TwoServers();
  first_parameter()->set_offset(8);
  refused(assignment, "a", "expected them within the segment's 25");
  assignment = TwoServers();
  first_parameter()->clear_initializer();
  refused(assignment, "a", "initializer");
  assignment = TwoServers();
  first_parameter()->set_fan_in(0);
  refused(assignment, "a", "fan_in");
  assignment = TwoServers();
  assignment.mutable_spec()->clear_optimizer();
  refused(assignment, "a", "optimizer.learning_rate");
}

}  // namespace
}  // namespace sangam
