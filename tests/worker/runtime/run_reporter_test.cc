#include "worker/runtime/run_reporter.h"

#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "tests/testing/recording_sink.h"
#include "worker/core/progress_ledger.h"

namespace sangam {
namespace {

TEST(RunReporterTest, ReportsAStepWhenItsLastShareIsDone) {
  testing::RecordingSink sink;
  RunReporter reporter(5, 6, ProgressLedger({0, 2}, 2, 0), &sink);
  reporter.AddShare(3, 1, 1.5, 10);
  EXPECT_TRUE(sink.entries().empty());
  reporter.AddShare(3, 0, 0.5, 9);
  const auto entries = sink.entries();
  ASSERT_EQ(entries.size(), 1);
  EXPECT_EQ(entries[0].job, 5);
  EXPECT_EQ(entries[0].generation, 6);
  EXPECT_EQ(entries[0].report.step().step(), 3);
  EXPECT_EQ(entries[0].report.step().loss_sum(1), 1.5);
}

TEST(RunReporterTest, ReportsAnEvaluationWhenItsLastLaneIsDone) {
  testing::RecordingSink sink;
  RunReporter reporter(5, 6, ProgressLedger({0, 2}, 2, 1), &sink);
  v1::EvaluationChunk chunk;
  chunk.set_correct(4);
  reporter.AddScores(8, {chunk});
  EXPECT_TRUE(sink.entries().empty());
  reporter.AddScores(8, {});
  const auto entries = sink.entries();
  ASSERT_EQ(entries.size(), 1);
  EXPECT_EQ(entries[0].report.evaluation().step(), 8);
  EXPECT_EQ(entries[0].report.evaluation().chunk(0).correct(), 4);
}

// As in training: a lane begins a step only when all have ended the one before but for their
// report.
TEST(RunReporterTest, ReportsLeaveInTheOrderOfTheSteps) {
  testing::RecordingSink sink;
  RunReporter reporter(5, 6, ProgressLedger({0, 2}, 2, 0), &sink);
  std::vector<std::thread> lanes;
  for (uint32_t share = 0; share < 2; ++share) {
    lanes.emplace_back([&reporter, share] {
      for (uint64_t step = 0; step < 200; ++step) reporter.AddShare(step, share, 1, 1);
    });
  }
  for (std::thread& lane : lanes) lane.join();
  const auto entries = sink.entries();
  ASSERT_EQ(entries.size(), 200);
  for (uint64_t step = 0; step < 200; ++step) {
    EXPECT_EQ(entries[step].report.step().step(), step);
  }
}

}  // namespace
}  // namespace sangam
