#include "common/plan/worker_memory.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan_shape.h"
#include "common/plan/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "tests/common/plan/plan_fixtures.h"

namespace sangam {
namespace {

using testing::ChainLayout;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::JobOf;
using testing::StagesOf;
using testing::Tie;
using testing::WorkersOf;

// Columns, parameters, flops, activation and scratch bytes.
v1::ModelLayout SmallLayout() {
  return ChainLayout(3, {{4, 10, 0, 100, 7}, {5, 0, 0, 20, 3}, {2, 6, 0, 50, 1}});
}

// 8 samples in 4 micro-batches of 2 and 4 shares.
v1::JobSpec SmallSpec() { return JobOf(8, 4, 4); }

v1::Plan Pipeline(v1::Schedule schedule, const std::vector<uint32_t>& counts, uint32_t ranks,
                  const v1::ModelLayout& layout, uint32_t lanes = 1) {
  PlanShape shape;
  shape.ranks = ranks;
  shape.replicas = 1;
  shape.schedule = schedule;
  shape.credits = 2;
  shape.lanes = lanes;
  shape.stages = StagesOf(counts);
  return SpreadJob(shape, WorkersOf(ranks), SmallSpec(), layout).value();
}

TEST(WorkerMemoryTest, GradientBuffersAreThoseOfLanesOfWaitingSpansAndOfTheLink) {
  // All shares on one lane: 1 computed, at most 2 * 3 + 1 wait, root twice with the link.
  EXPECT_EQ(GradientBuffers({0, 8}, 8, 1), 1u + 7 + 2);
  // No more can wait than there are shares.
  EXPECT_EQ(GradientBuffers({0, 2}, 8, 2), 2u + 2 + 2);
  // [1,4) is sent as [1,2) and [2,4).
  EXPECT_EQ(GradientBuffers({1, 4}, 8, 1), 1u + 3 + 4);
  EXPECT_EQ(GradientBuffers({0, 1}, 1, 1), 1u + 1 + 2);
}

TEST(WorkerMemoryTest, ALaneHasTheMicroBatchesOfConsecutiveShares) {
  v1::Plan plan;
  plan.set_micro_batches(7);
  plan.set_shares(3);  // of 2, 2 and 3 micro-batches
  EXPECT_THAT(LaneMicroBatches(plan, {0, 3}, 1), ElementsAre(7));
  EXPECT_THAT(LaneMicroBatches(plan, {0, 3}, 2), ElementsAre(2, 5));
  EXPECT_THAT(LaneMicroBatches(plan, {0, 3}, 3), ElementsAre(2, 3));
  EXPECT_THAT(LaneMicroBatches(plan, {0, 2}, 2), ElementsAre(2));
  EXPECT_THAT(LaneMicroBatches(plan, {1, 1}, 2), IsEmpty());
  EXPECT_THAT(LaneMicroBatches(plan, {2, 3}, 8), ElementsAre(3));
}

TEST(WorkerMemoryTest, DataParallelKeepsOneMicroBatchOnEachLane) {
  const v1::Plan plan = SpreadJob({}, WorkersOf(2), SmallSpec(), SmallLayout()).value();
  const auto memory = MemoryOf(plan, SmallSpec(), 0, 2);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->weights, 16u * 4);
  EXPECT_EQ(memory->gradients, 16u * 4 * 6);
  // Stash, scratch and the gradient of the output; rows and lanes.
  EXPECT_EQ(memory->activations, (170u + 11 + 8) * 2 * 2);
  EXPECT_EQ(memory->messages, 0u);
  EXPECT_EQ(memory->batches, (kBatchesAhead + 1) * (3u * 4 + 4) * 2 * 2);
  EXPECT_EQ(memory->total(),
            memory->weights + memory->gradients + memory->activations + memory->batches);
}

TEST(WorkerMemoryTest, AnIdleWorkerNeedsNothing) {
  const v1::Plan plan = SpreadJob({}, WorkersOf(5), SmallSpec(), SmallLayout()).value();
  const auto memory = MemoryOf(plan, SmallSpec(), 4, 2);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->total(), 0u);
}

TEST(WorkerMemoryTest, APipelineStashesMoreInFront) {
  const v1::Plan plan = Pipeline(v1::ONE_F_ONE_B, {1, 1, 1}, 3, SmallLayout());
  const WorkerMemory first = MemoryOf(plan, SmallSpec(), 0, 1).value();
  const WorkerMemory middle = MemoryOf(plan, SmallSpec(), 1, 1).value();
  const WorkerMemory last = MemoryOf(plan, SmallSpec(), 2, 1).value();
  EXPECT_THAT(LaneSlots(plan, 0, 1), ElementsAre(3));
  EXPECT_THAT(LaneSlots(plan, 1, 1), ElementsAre(2));
  EXPECT_THAT(LaneSlots(plan, 2, 1), ElementsAre(1));

  EXPECT_EQ(first.weights, 40u);
  EXPECT_EQ(first.gradients, 40u * (1 + 4 + 2));
  EXPECT_EQ(first.activations, (3u * 100 + 7) * 2);
  EXPECT_EQ(first.messages, (2u + 2 + 3) * 16 * 2);  // sends activations, takes gradients
  EXPECT_EQ(first.batches, (2u + 3) * 3 * 4 * 2);    // inputs

  EXPECT_EQ(middle.weights, 0u);
  EXPECT_EQ(middle.gradients, 0u);
  EXPECT_EQ(middle.activations, (2u * 20 + 3) * 2);
  EXPECT_EQ(middle.messages, (2u + 2 + 2) * 16 * 2 + (2u + 2 + 2) * 20 * 2);
  EXPECT_EQ(middle.batches, 0u);

  EXPECT_EQ(last.activations, (50u + 1 + 8) * 2);
  EXPECT_EQ(last.messages, (2u + 2 + 1) * 20 * 2);
  EXPECT_EQ(last.batches, (2u + 1) * 4 * 2);  // labels
}

TEST(WorkerMemoryTest, LabelsAreOneForEachTerm) {
  v1::ModelLayout layout = SmallLayout();
  layout.set_terms_per_sample(16);
  const v1::Plan plan = Pipeline(v1::ONE_F_ONE_B, {1, 1, 1}, 3, layout);
  EXPECT_EQ(MemoryOf(plan, SmallSpec(), 2, 1)->batches, (2u + 1) * 16 * 4 * 2);
}

TEST(WorkerMemoryTest, LanesDealTheMicroBatchesAndEachNeedsItsOwnStash) {
  const v1::Plan plan = Pipeline(v1::GPIPE, {1, 1, 1}, 3, SmallLayout(), 2);
  EXPECT_THAT(LaneSlots(plan, 0, 1), ElementsAre(4));
  EXPECT_THAT(LaneSlots(plan, 0, 2), ElementsAre(2));
  EXPECT_EQ(MemoryOf(plan, SmallSpec(), 0, 2)->activations, (2u * 100 + 7) * 2 * 2);
}

TEST(WorkerMemoryTest, SplitBackwardKeepsTheScratchOfEverySlotButWhereItRecomputes) {
  const v1::Plan plan = Pipeline(v1::ZERO_BUBBLE, {2, 1}, 2, SmallLayout());
  const uint64_t slots = LaneSlots(plan, 0, 1)[0];
  ASSERT_GT(slots, 1u);
  EXPECT_EQ(MemoryOf(plan, SmallSpec(), 0, 1)->activations, slots * (120 + 10) * 2);
  v1::JobSpec spec = SmallSpec();
  spec.mutable_model()->add_block();
  spec.mutable_model()->add_block()->set_recompute(true);
  spec.mutable_model()->add_block();
  // What comes back from the block that recomputes is kept for the weights of the one in front.
  EXPECT_EQ(MemoryOf(plan, spec, 0, 1)->activations, (slots * (120 + 7 + 16) + 3) * 2);
  // Without a split both is made and used at once.
  const v1::Plan whole = Pipeline(v1::ONE_F_ONE_B, {2, 1}, 2, SmallLayout());
  EXPECT_EQ(MemoryOf(whole, spec, 0, 1)->activations, (2u * 120 + 10) * 2);
}

TEST(WorkerMemoryTest, EveryChunkHasItsOwnSlotsAndBoundaries) {
  const v1::ModelLayout layout =
      ChainLayout(1, {{1, 1, 0, 10, 0}, {2, 0, 0, 0, 0}, {3, 4, 0, 1000, 0}, {5, 0, 0, 0, 0}});
  const v1::Plan plan = Pipeline(v1::INTERLEAVED, {1, 1, 1, 1}, 2, layout);
  const std::vector<uint32_t> slots = LaneSlots(plan, 0, 1);
  ASSERT_EQ(slots.size(), 2u);
  const WorkerMemory memory = MemoryOf(plan, SmallSpec(), 0, 1).value();
  EXPECT_EQ(memory.weights, 5u * 4);
  EXPECT_EQ(memory.activations, (slots[0] * 10 + slots[1] * 1000) * 2);
  // Sends b0 and b2, receives b1.
  const uint64_t kept = std::max(slots[0], slots[1]);
  EXPECT_EQ(memory.messages, (2 + 2 + kept) * (4 + 12 + 8) * 2);
  EXPECT_EQ(memory.batches, (2u + slots[0]) * 4 * 2);
}

TEST(WorkerMemoryTest, SlotsAreOfTheLaneThatKeepsMostOfAChunk) {
  const v1::ModelLayout layout = ChainLayout(1, {{1}, {1}, {1}, {1}});
  PlanShape shape;
  shape.ranks = 2;
  shape.replicas = 1;
  shape.schedule = v1::INTERLEAVED;
  shape.stages = StagesOf({1, 1, 1, 1});
  const auto slots = [&](uint32_t micro_batches, uint32_t shares, uint32_t lanes) {
    const v1::JobSpec spec = JobOf(micro_batches, micro_batches, shares);
    return LaneSlots(SpreadJob(shape, WorkersOf(2), spec, layout).value(), 0, lanes);
  };
  EXPECT_THAT(slots(3, 1, 1), ElementsAre(3, 3));
  EXPECT_THAT(slots(6, 1, 1), ElementsAre(4, 2));
  EXPECT_THAT(slots(9, 3, 2), ElementsAre(4, 3));
}

TEST(WorkerMemoryTest, OneWorkerMayHaveSeveralStagesToo) {
  v1::Plan plan = SpreadJob({}, WorkersOf(1), SmallSpec(), SmallLayout()).value();
  EXPECT_THAT(LaneSlots(plan, 0, 1), ElementsAre(1));
  plan.clear_stage();
  for (const v1::StagePlan& stage : StagesOf({1, 2})) *plan.add_stage() = stage;
  plan.set_schedule(v1::INTERLEAVED);
  EXPECT_THAT(LaneSlots(plan, 0, 1), ElementsAre(2, 1));
}

TEST(WorkerMemoryTest, SkipConnectionsCountAtBothEndsAndMakeSums) {
  v1::ModelLayout layout = ChainLayout(3, {{5, 10, 0, 100, 7}, {5, 0, 0, 20, 3}, {2, 6, 0, 50, 1}});
  const v1::Plan without = Pipeline(v1::ONE_F_ONE_B, {1, 1, 1}, 3, layout);
  layout.mutable_block(2)->set_skip_from(0);
  const v1::Plan plan = Pipeline(v1::ONE_F_ONE_B, {1, 1, 1}, 3, layout);
  const auto more = [&](uint32_t worker) {
    const WorkerMemory with_skip = MemoryOf(plan, SmallSpec(), worker, 1).value();
    const WorkerMemory plain = MemoryOf(without, SmallSpec(), worker, 1).value();
    return std::pair(with_skip.messages - plain.messages,
                     with_skip.activations - plain.activations);
  };
  // The gradient of the output is a sum of two.
  EXPECT_EQ(more(0), std::pair((2u + 2 + 3) * 20ul * 2, 3u * 20ul * 2));
  EXPECT_EQ(more(1), std::pair(0ul, 0ul));
  // The input is.
  EXPECT_EQ(more(2), std::pair((2u + 2 + 1) * 20ul * 2, 20ul * 2));
  // Nothing crosses within a stage.
  const v1::Plan one = SpreadJob({}, WorkersOf(1), SmallSpec(), layout).value();
  EXPECT_EQ(MemoryOf(one, SmallSpec(), 0, 1)->messages, 0u);
}

TEST(WorkerMemoryTest, ASkipBetweenTwoStagesOfOneWorkerIsHeldOnce) {
  v1::ModelLayout layout =
      ChainLayout(1, {{2, 1, 0, 10, 0}, {2, 0, 0, 0, 0}, {3, 4, 0, 1000, 0}, {5, 0, 0, 0, 0}});
  const v1::Plan without = Pipeline(v1::INTERLEAVED, {1, 1, 1, 1}, 2, layout);
  layout.mutable_block(2)->set_skip_from(0);
  const v1::Plan plan = Pipeline(v1::INTERLEAVED, {1, 1, 1, 1}, 2, layout);
  const std::vector<uint32_t> slots = LaneSlots(plan, 0, 1);
  EXPECT_EQ(MemoryOf(plan, SmallSpec(), 0, 1)->messages,
            MemoryOf(without, SmallSpec(), 0, 1)->messages +
                2 * (2 + std::max(slots[0], slots[1])) * 8u * 2);
}

TEST(WorkerMemoryTest, TiedParametersAreHeldOnceButHaveGradientsForEachUse) {
  v1::ModelLayout layout = SmallLayout();
  Tie(2, &layout);
  const v1::Plan one = SpreadJob({}, WorkersOf(1), SmallSpec(), layout).value();
  const WorkerMemory together = MemoryOf(one, SmallSpec(), 0, 1).value();
  EXPECT_EQ(together.weights, (10u + 6) * 4);
  EXPECT_EQ(together.gradients, (10u + 6 + 10) * 4 * GradientBuffers({0, 4}, 4, 1));
  const v1::Plan plan = Pipeline(v1::ONE_F_ONE_B, {1, 1, 1}, 3, layout);
  EXPECT_EQ(MemoryOf(plan, SmallSpec(), 0, 1)->weights, 40u);
  EXPECT_EQ(MemoryOf(plan, SmallSpec(), 2, 1)->weights, 64u);
}

TEST(WorkerMemoryTest, WhatDoesNotFit64BitsIsTheLargestNumber) {
  v1::ModelLayout layout = SmallLayout();
  layout.mutable_block(0)->set_activation_bytes(UINT64_MAX / 2);
  const v1::Plan plan = SpreadJob({}, WorkersOf(1), SmallSpec(), layout).value();
  const WorkerMemory memory = MemoryOf(plan, SmallSpec(), 0, 4).value();
  EXPECT_EQ(memory.activations, UINT64_MAX);
  EXPECT_EQ(memory.total(), UINT64_MAX);
}

TEST(WorkerMemoryTest, RefusesAWorkerAndSharesThatThePlanLacks) {
  v1::Plan plan = SpreadJob({}, WorkersOf(1), SmallSpec(), SmallLayout()).value();
  auto memory = MemoryOf(plan, SmallSpec(), 1, 1);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(memory.status().message(), HasSubstr("found 1, expected less than the plan's 1"));
  plan.mutable_worker(0)->mutable_shares()->set_end(5);
  memory = MemoryOf(plan, SmallSpec(), 0, 1);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(memory.status().message(), HasSubstr("found [0,5), expected shares of [0,4)"));
}

}  // namespace
}  // namespace sangam
