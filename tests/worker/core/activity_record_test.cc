#include "worker/core/activity_record.h"

#include <vector>

#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "worker/core/instruction.h"

namespace sangam {
namespace {

Instruction Make(Op op, uint32_t block, uint32_t index) {
  Instruction instruction;
  instruction.op = op;
  instruction.block = block;
  instruction.index = index;
  return instruction;
}

TEST(ActivityRecordTest, NeighboursOfOneKindAndMicroBatchBecomeOneEvent) {
  ActivityRecord record(1, 4);
  record.AddEvent(Make(Op::kForward, 2, 5), 8, 1000, 10);
  record.AddEvent(Make(Op::kForward, 3, 5), 8, 1012, 20);
  record.AddEvent(Make(Op::kForward, 2, 6), 8, 1040, 5);
  record.AddEvent(Make(Op::kEmitGradient, 3, 6), 8, 1050, 5);
  const std::vector<v1::TraceEvent> events = record.TakeEvents();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].activity(), v1::FORWARD);
  EXPECT_EQ(events[0].block(), 2u);
  EXPECT_EQ(events[0].micro_batch(), 5u);
  EXPECT_EQ(events[0].begin_us(), 1000u);
  EXPECT_EQ(events[0].duration_us(), 32u);
  EXPECT_EQ(events[0].lane(), 1u);
  EXPECT_EQ(events[1].micro_batch(), 6u);
  EXPECT_EQ(events[2].activity(), v1::PUSH);
  EXPECT_TRUE(record.TakeEvents().empty());
}

TEST(ActivityRecordTest, MicroBatchesWithoutSamplesLeaveNoTrace) {
  ActivityRecord record(0, 2);
  record.AddEvent(Make(Op::kForward, 0, 1), 0, 1000, 10);
  record.AddEvent(Make(Op::kRelease, 0, 1), 8, 1010, 10);
  EXPECT_TRUE(record.TakeEvents().empty());
  // Waiting for weights and pushing has nothing to do with samples.
  record.AddEvent(Make(Op::kAwaitWeights, 0, 0), 0, 1000, 10);
  record.AddEvent(Make(Op::kEmitGradient, 0, 0), 0, 1010, 10);
  EXPECT_EQ(record.TakeEvents().size(), 2u);
}

TEST(ActivityRecordTest, TimesAddUpForEachBlock) {
  ActivityRecord record(0, 3);
  record.AddTime(Make(Op::kForward, 1, 0), 8, 0.5);
  record.AddTime(Make(Op::kForward, 1, 1), 4, 0.25);
  record.AddTime(Make(Op::kBackwardInput, 1, 0), 8, 1.0);
  record.AddTime(Make(Op::kBackwardWeights, 1, 0), 8, 2.0);
  record.AddTime(Make(Op::kSend, 2, 0), 8, 7.0);
  const std::vector<v1::BlockTime> times = record.BlockTimes();
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].block(), 1u);
  EXPECT_EQ(times[0].samples(), 12u);
  EXPECT_DOUBLE_EQ(times[0].forward_seconds(), 0.75);
  EXPECT_DOUBLE_EQ(times[0].backward_seconds(), 3.0);
}

}  // namespace
}  // namespace sangam
