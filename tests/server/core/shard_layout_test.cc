#include "server/core/shard_layout.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "server/core/optimizer.h"

namespace sangam {
namespace {

void AddParameter(v1::SegmentLayout* segment, uint64_t count, bool decay) {
  const int index = segment->parameter_size();
  v1::ParameterLayout* parameter = segment->add_parameter();
  parameter->set_name(absl::StrCat("p", index));
  parameter->set_parameter_index(static_cast<uint32_t>(index));
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
  assignment.mutable_spec()->mutable_optimizer()->mutable_momentum()->set_weight_decay(0.5f);
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

v1::OptimizerSpec Sgd(float weight_decay) {
  v1::OptimizerSpec spec;
  spec.set_learning_rate(1);
  spec.mutable_sgd()->set_weight_decay(weight_decay);
  return spec;
}

using Ranges = std::vector<ParameterRange>;

TEST(ParameterRangesTest, AreCutToThePageAndCountedFromIt) {
  v1::SegmentLayout segment;
  AddParameter(&segment, 18, true);
  AddParameter(&segment, 7, false);
  AddParameter(&segment, 5, true);
  const v1::OptimizerSpec sgd = Sgd(0.5f);
  EXPECT_EQ(ParameterRanges(segment, sgd, 0, 30),
            (Ranges{{0, 18, 0, 0.5f, 0}, {18, 25, 1, 0, 0}, {25, 30, 2, 0.5f, 0}}));
  EXPECT_EQ(ParameterRanges(segment, sgd, 10, 10), (Ranges{{0, 8, 0, 0.5f, 0}, {8, 10, 1, 0, 0}}));
  EXPECT_EQ(ParameterRanges(segment, sgd, 18, 7), (Ranges{{0, 7, 1, 0, 0}}));
  EXPECT_EQ(ParameterRanges(segment, sgd, 20, 10), (Ranges{{0, 5, 1, 0, 0}, {5, 10, 2, 0.5f, 0}}));
}

TEST(ParameterRangesTest, NeighboursThatAreAlikeAreJoined) {
  v1::SegmentLayout segment;
  AddParameter(&segment, 3, true);
  AddParameter(&segment, 4, true);
  AddParameter(&segment, 1, false);
  EXPECT_EQ(ParameterRanges(segment, Sgd(0.5f), 0, 8),
            (Ranges{{0, 7, 0, 0.5f, 0}, {7, 8, 2, 0, 0}}));
  EXPECT_EQ(ParameterRanges(segment, Sgd(0.5f), 1, 4), (Ranges{{0, 4, 0, 0.5f, 0}}));
  EXPECT_EQ(ParameterRanges(segment, Sgd(0), 0, 8), (Ranges{{0, 8, 0, 0, 0}}));
  segment.mutable_parameter(2)->set_average_rate(0.25f);
  EXPECT_EQ(ParameterRanges(segment, Sgd(0), 0, 8), (Ranges{{0, 7, 0, 0, 0}, {7, 8, 2, 0, 0.25f}}));
  // LAMB takes the norm of each.
  v1::OptimizerSpec lamb;
  lamb.mutable_lamb()->set_weight_decay(0.5f);
  EXPECT_EQ(ParameterRanges(segment, lamb, 1, 7),
            (Ranges{{0, 2, 0, 0.5f, 0}, {2, 6, 1, 0.5f, 0}, {6, 7, 2, 0, 0.25f}}));
}

TEST(ParameterRangesTest, DecayGroupsDecide) {
  v1::SegmentLayout segment;
  AddParameter(&segment, 2, true);
  AddParameter(&segment, 2, false);
  AddParameter(&segment, 2, true);
  v1::OptimizerSpec spec = Sgd(0.5f);
  v1::DecayGroup* group = spec.add_decay_group();
  group->set_parameter("p1");
  group->set_weight_decay(0.25f);
  EXPECT_EQ(ParameterRanges(segment, spec, 0, 6),
            (Ranges{{0, 2, 0, 0.5f, 0}, {2, 4, 1, 0.25f, 0}, {4, 6, 2, 0.5f, 0}}));
}

TEST(LayOutShardTest, FindsTheServersPagesAndTheirMemory) {
  const absl::StatusOr<ShardLayout> a = LayOutShard(TwoServers(), "a");
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(a->server, 0u);
  EXPECT_EQ(a->shares, 4u);
  const std::vector<PageLayout> expected_a = {{0, 0, 10, {{0, 10, 0, 0.5f, 0}}},
                                              {0, 20, 5, {{0, 5, 1, 0, 0}}}};
  EXPECT_EQ(a->pages, expected_a);
  EXPECT_EQ(a->memory_bytes, 15u * 3 * 4);

  const absl::StatusOr<ShardLayout> b = LayOutShard(TwoServers(), "b");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b->server, 1u);
  const std::vector<PageLayout> expected_b = {{0, 10, 10, {{0, 8, 0, 0.5f, 0}, {8, 10, 1, 0, 0}}},
                                              {1, 0, 4, {{0, 4, 0, 0.5f, 0}}}};
  EXPECT_EQ(b->pages, expected_b);
  EXPECT_EQ(b->memory_bytes, 14u * 3 * 4);
}

TEST(LayOutShardTest, CountsTheCopiesThatCheckpointsAskFor) {
  v1::Assignment assignment = TwoServers();
  assignment.mutable_spec()->mutable_checkpoint()->set_every_steps(10);
  EXPECT_EQ(LayOutShard(assignment, "a")->memory_bytes, 15u * (3 + 2 * 2) * 4);
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
  first_parameter()->set_parameter_index(3);
  refused(assignment, "a", "parameter_index: found 3, expected less than 3");
  assignment = TwoServers();
  assignment.mutable_spec()->clear_optimizer();
  refused(assignment, "a", "optimizer.learning_rate");
}

TEST(ShardLayoutTest, StagingIsWhatTheWorkersSendWithinAStep) {
  v1::Assignment assignment = TwoServers();
  v1::Plan* plan = assignment.mutable_plan();
  const auto add_worker = [plan](uint32_t begin, uint32_t end) {
    v1::WorkerPlan* worker = plan->add_worker();
    worker->mutable_shares()->set_begin(begin);
    worker->mutable_shares()->set_end(end);
  };
  const auto staging = [&assignment] {
    const auto layout = LayOutShard(assignment, "a");
    EXPECT_TRUE(layout.ok()) << layout.status();
    return StagingBytes(assignment.plan(), *layout);
  };
  constexpr uint64_t kFrameOverhead = 128 * 1024;
  constexpr uint64_t kStream = 4 << 20;
  // Server a has pages of 10 and 5 elements.
  constexpr uint64_t kOneSpan = 15 * sizeof(float) + 2 * kFrameOverhead;
  add_worker(0, 4);
  EXPECT_EQ(staging(), kStream + kOneSpan);
  // The other end of the same pipeline has other blocks.
  add_worker(0, 4);
  EXPECT_EQ(staging(), 2 * kStream + kOneSpan);
  // [0,3) is [0,2) and [2,3).
  plan->clear_worker();
  add_worker(0, 3);
  add_worker(3, 4);
  EXPECT_EQ(staging(), 2 * kStream + 3 * kOneSpan);
  // Every use of a segment has a gradient of its own.
  plan->mutable_layout()->mutable_segment(0)->add_use(0);
  plan->mutable_layout()->mutable_segment(0)->add_use(1);
  EXPECT_EQ(staging(), 2 * kStream + 6 * kOneSpan);
}

}  // namespace
}  // namespace sangam
