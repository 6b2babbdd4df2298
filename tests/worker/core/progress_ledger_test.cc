#include "worker/core/progress_ledger.h"

#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"

namespace sangam {
namespace {

v1::EvaluationChunk Chunk(uint32_t number) {
  v1::EvaluationChunk chunk;
  chunk.set_chunk(number);
  chunk.set_samples(10 + number);
  chunk.set_correct(number);
  chunk.set_loss_sum(0.5 * number);
  return chunk;
}

TEST(ProgressLedgerTest, AStepIsReportedWithItsLastShareInShareOrder) {
  ProgressLedger ledger({2, 5}, 2, 0);
  EXPECT_FALSE(ledger.AddShare(7, 4, 0.4, 40).has_value());
  EXPECT_FALSE(ledger.AddShare(7, 2, 0.2, 20).has_value());
  const std::optional<v1::StepReport> report = ledger.AddShare(7, 3, 0.3, 30);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->step(), 7);
  EXPECT_EQ(report->first_share(), 2);
  ASSERT_EQ(report->loss_sum_size(), 3);
  ASSERT_EQ(report->samples_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(report->loss_sum(i), (i + 2) / 10.0);
    EXPECT_EQ(report->samples(i), 20 + 10 * i);
  }
}

TEST(ProgressLedgerTest, TwoStepsMayBeOpenAtOnce) {
  ProgressLedger ledger({0, 2}, 2, 0);
  EXPECT_FALSE(ledger.AddShare(0, 0, 1, 1).has_value());
  EXPECT_FALSE(ledger.AddShare(1, 0, 3, 1).has_value());
  const auto first = ledger.AddShare(0, 1, 2, 1);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->step(), 0);
  EXPECT_EQ(first->loss_sum(0), 1);
  const auto second = ledger.AddShare(1, 1, 4, 1);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->loss_sum(0), 3);
  // What was reported is forgotten.
  EXPECT_FALSE(ledger.AddShare(0, 0, 1, 1).has_value());
}

TEST(ProgressLedgerTest, AnEvaluationIsReportedWithItsLastLaneInChunkOrder) {
  ProgressLedger ledger({0, 1}, 3, 9);
  EXPECT_FALSE(ledger.AddScores(4, {Chunk(1), Chunk(7)}).has_value());
  EXPECT_FALSE(ledger.AddScores(4, {}).has_value());
  const auto report = ledger.AddScores(4, {Chunk(4)});
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->step(), 4);
  EXPECT_EQ(report->chunks_total(), 9);
  ASSERT_EQ(report->chunk_size(), 3);
  EXPECT_EQ(report->chunk(0).chunk(), 1);
  EXPECT_EQ(report->chunk(1).chunk(), 4);
  EXPECT_EQ(report->chunk(2).chunk(), 7);
  EXPECT_EQ(report->chunk(2).correct(), 7);
}

TEST(ProgressLedgerTest, ATraceOfVeryManyEventsIsCut) {
  ProgressLedger ledger({0, 2}, 2, 0);
  const std::vector<v1::TraceEvent> events(ProgressLedger::kMaxTraceEvents - 1);
  EXPECT_FALSE(ledger.AddTrace(0, events).has_value());
  EXPECT_EQ(ledger.AddTrace(0, events)->event_size(), ProgressLedger::kMaxTraceEvents);
}

}  // namespace
}  // namespace sangam
