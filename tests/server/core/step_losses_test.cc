#include "server/core/step_losses.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/batch_cut.h"
#include "common/plan/span.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"

namespace sangam {
namespace {

// 20 samples in batches of 8, 8 and 4; four shares of 2 (or 1) samples.
constexpr BatchCut kCut{8, 4, 4, 20};
constexpr ShareSpan kLeft{0, 2};
constexpr ShareSpan kRight{2, 4};
constexpr ShareSpan kAll{0, 4};

v1::StepReport Report(uint64_t step, uint32_t first_share, const std::vector<double>& losses) {
  v1::StepReport report;
  report.set_step(step);
  report.set_first_share(first_share);
  for (const double loss : losses) {
    report.add_loss_sum(loss);
    report.add_samples(step % 3 == 2 ? 1 : 2);
  }
  return report;
}

TEST(StepLossesTest, AStepIsCompleteWhenEveryShareHasCome) {
  StepLosses losses(kCut, 1, 6);
  EXPECT_TRUE(losses.Add(Report(0, 2, {3, 4}), kRight)->empty());
  const auto complete = losses.Add(Report(0, 0, {1, 2}), kLeft);
  ASSERT_TRUE(complete.ok()) << complete.status();
  ASSERT_EQ(complete->size(), 1u);
  EXPECT_EQ((*complete)[0].step, 0u);
  EXPECT_EQ((*complete)[0].samples, 8u);
  EXPECT_EQ((*complete)[0].loss, 10.0 / 8);
  EXPECT_EQ(losses.steps_done(), 1u);
  EXPECT_EQ(losses.num_open(), 0u);
}

TEST(StepLossesTest, TheSumRunsOverTheSharesInOrderWhoeverComesFirst) {
  // These four do not add up to the same in another order.
  const std::vector<double> values = {1e16, 1.0, -1e16, 1.0};
  const double expected = (((0.0 + 1e16) + 1.0) + -1e16 + 1.0) / 8;
  StepLosses forwards(kCut, 1, 6);
  StepLosses backwards(kCut, 1, 6);
  StepLosses whole(kCut, 1, 6);
  for (uint32_t s = 0; s < 3; ++s) {
    ASSERT_TRUE(forwards.Add(Report(0, s, {values[s]}), kAll)->empty());
    ASSERT_TRUE(backwards.Add(Report(0, 3 - s, {values[3 - s]}), kAll)->empty());
  }
  EXPECT_EQ(forwards.Add(Report(0, 3, {values[3]}), kAll)->at(0).loss, expected);
  EXPECT_EQ(backwards.Add(Report(0, 0, {values[0]}), kAll)->at(0).loss, expected);
  EXPECT_EQ(whole.Add(Report(0, 0, values), kAll)->at(0).loss, expected);
}

TEST(StepLossesTest, TheMeanIsOverTheTermsOfTheSamples) {
  StepLosses losses(kCut, 16, 6);
  const auto complete = losses.Add(Report(0, 0, {32, 64, 96, 64}), kAll);
  ASSERT_TRUE(complete.ok()) << complete.status();
  EXPECT_EQ(complete->at(0).loss, 2.0);
  EXPECT_EQ(complete->at(0).samples, 8u);
}

TEST(StepLossesTest, WhatComesTwiceCountsOnce) {
  StepLosses losses(kCut, 1, 6);
  ASSERT_TRUE(losses.Add(Report(0, 0, {1, 2}), kLeft)->empty());
  ASSERT_TRUE(losses.Add(Report(0, 0, {100, 200}), kLeft)->empty());
  EXPECT_EQ(losses.Add(Report(0, 2, {3, 4}), kRight)->at(0).loss, 10.0 / 8);
  EXPECT_TRUE(losses.Add(Report(0, 2, {3, 4}), kRight)->empty());
  EXPECT_EQ(losses.steps_done(), 1u);
  EXPECT_EQ(losses.num_open(), 0u);
}

TEST(StepLossesTest, StepsComeOutInOrder) {
  StepLosses losses(kCut, 1, 3);
  ASSERT_TRUE(losses.Add(Report(0, 0, {1, 1}), kLeft)->empty());
  ASSERT_TRUE(losses.Add(Report(1, 0, {1, 1}), kLeft)->empty());
  ASSERT_TRUE(losses.Add(Report(1, 2, {1, 1}), kRight)->empty());
  const auto complete = losses.Add(Report(0, 2, {1, 1}), kRight);
  ASSERT_EQ(complete->size(), 2u);
  EXPECT_EQ((*complete)[0].step, 0u);
  EXPECT_EQ((*complete)[1].step, 1u);
  EXPECT_FALSE(losses.complete());
  const auto last = losses.Add(Report(2, 0, {1, 1, 1, 1}), kAll);
  EXPECT_EQ(last->at(0).samples, 4u);  // the ragged batch
  EXPECT_EQ(last->at(0).loss, 1.0);
  EXPECT_TRUE(losses.complete());
}

TEST(StepLossesTest, RefusesWhatDoesNotFitTheCut) {
  StepLosses losses(kCut, 1, 6);
  v1::StepReport wrong_samples = Report(0, 0, {1, 2});
  wrong_samples.set_samples(1, 3);
  v1::StepReport missing_samples = Report(0, 0, {1, 2});
  missing_samples.mutable_samples()->RemoveLast();
  const std::vector<v1::StepReport> bad = {
      Report(6, 0, {1, 2}),           // beyond the last step
      Report(0, 0, {}),               // nothing
      Report(0, 1, {1, 2}),           // not all its own
      Report(0, 2, {1}),              // another worker's
      Report(0, UINT32_MAX, {1, 2}),  // no such share
      wrong_samples,
      missing_samples,
  };
  for (const v1::StepReport& report : bad) {
    EXPECT_EQ(losses.Add(report, kLeft).status().code(), absl::StatusCode::kInvalidArgument)
        << report.ShortDebugString();
  }
  EXPECT_EQ(losses.num_open(), 0u);
}

TEST(StepLossesTest, BoundsHowFarAWorkerMayBeAhead) {
  const uint64_t most = (uint64_t{1} << 20) / 4;
  StepLosses losses(kCut, 1, most * 2);
  for (uint64_t step = 0; step < most; ++step) {
    ASSERT_TRUE(losses.Add(Report(step, 0, {1, 1}), kLeft).ok());
  }
  const auto status = losses.Add(Report(most, 0, {1, 1}), kLeft).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("step 0 is not complete"), absl::string_view::npos) << status;
  ASSERT_TRUE(losses.Add(Report(0, 2, {1, 1}), kRight).ok());
  EXPECT_TRUE(losses.Add(Report(most, 0, {1, 1}), kLeft).ok());
}

}  // namespace
}  // namespace sangam
