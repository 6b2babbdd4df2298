#include "worker/runtime/pending_losses.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "tests/testing/recording_sink.h"
#include "worker/backend/backend.h"
#include "worker/core/progress_ledger.h"
#include "worker/runtime/run_reporter.h"

namespace sangam {
namespace {

// Counts how often it was waited for.
class CountedSums : public PendingSums {
 public:
  CountedSums(absl::StatusOr<ClassificationSums> sums, int* gets) : sums_(sums), gets_(gets) {}
  absl::StatusOr<ClassificationSums> Get() override {
    ++*gets_;
    return sums_;
  }

 private:
  const absl::StatusOr<ClassificationSums> sums_;
  int* const gets_;
};

class PendingLossesTest : public ::testing::Test {
 protected:
  std::unique_ptr<PendingSums> Sums(double loss, uint64_t correct = 0) {
    return std::make_unique<CountedSums>(ClassificationSums{loss, correct}, &gets_);
  }

  int gets_ = 0;
  testing::RecordingSink sink_;
  RunReporter reporter_{3, 1, ProgressLedger({0, 2}, 1, 2), &sink_};
  PendingLosses losses_{&reporter_};
};

TEST_F(PendingLossesTest, ReportsSharesWhenTheyAreSettled) {
  ASSERT_TRUE(losses_.AddLoss(Sums(0.1)).ok());
  ASSERT_TRUE(losses_.AddLoss(Sums(0.2)).ok());
  losses_.EndShare(4, 0, 10);
  ASSERT_TRUE(losses_.AddLoss(Sums(5)).ok());
  losses_.EndShare(4, 1, 11);
  EXPECT_EQ(gets_, 0);
  EXPECT_TRUE(sink_.entries().empty());
  ASSERT_TRUE(losses_.Settle().ok());
  ASSERT_EQ(sink_.entries().size(), 1);
  const v1::StepReport step = sink_.entries()[0].report.step();
  EXPECT_EQ(step.step(), 4);
  EXPECT_EQ(step.loss_sum(0), 0.0 + 0.1 + 0.2);
  EXPECT_EQ(step.samples(0), 10);
  EXPECT_EQ(step.loss_sum(1), 5);
  EXPECT_EQ(step.samples(1), 11);
}

TEST_F(PendingLossesTest, ReportsScoresAtTheEnd) {
  ASSERT_TRUE(losses_.AddScore(Sums(1.5, 3), 0, 8).ok());
  ASSERT_TRUE(losses_.AddScore(Sums(2.5, 4), 1, 9).ok());
  EXPECT_EQ(gets_, 0);
  ASSERT_TRUE(losses_.EndEvaluation(6).ok());
  ASSERT_EQ(sink_.entries().size(), 1);
  const v1::EvaluationReport report = sink_.entries()[0].report.evaluation();
  EXPECT_EQ(report.step(), 6);
  ASSERT_EQ(report.chunk_size(), 2);
  EXPECT_EQ(report.chunk(1).chunk(), 1);
  EXPECT_EQ(report.chunk(1).samples(), 9);
  EXPECT_EQ(report.chunk(1).correct(), 4);
  EXPECT_EQ(report.chunk(1).loss_sum(), 2.5);
}

TEST_F(PendingLossesTest, ReadsTheOldestWhenThereAreMany) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(losses_.AddLoss(Sums(1)).ok());
  EXPECT_EQ(gets_, 36);
  losses_.EndShare(0, 0, 100);
  losses_.EndShare(0, 1, 0);
  ASSERT_TRUE(losses_.Settle().ok());
  EXPECT_EQ(sink_.entries()[0].report.step().loss_sum(0), 100);
}

TEST_F(PendingLossesTest, AFailedDeviceIsSeen) {
  const absl::Status failed = absl::InternalError("the device failed");
  ASSERT_TRUE(losses_.AddLoss(std::make_unique<CountedSums>(failed, &gets_)).ok());
  losses_.EndShare(0, 0, 1);
  EXPECT_EQ(losses_.Settle(), failed);
  EXPECT_TRUE(sink_.entries().empty());
}

}  // namespace
}  // namespace sangam
