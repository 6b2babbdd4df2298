#include "client/progress.h"

#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kErase[] = "\r\x1b[K";

// Makes a job's events; `seconds` is the coordinator's clock.
v1::JobEvent At(double seconds) {
  v1::JobEvent event;
  const auto whole = static_cast<int64_t>(seconds);
  event.mutable_time()->set_seconds(1'700'000'000 + whole);
  event.mutable_time()->set_nanos(
      static_cast<int32_t>((seconds - static_cast<double>(whole)) * 1e9));
  return event;
}

v1::JobEvent State(double seconds, v1::JobState state, const std::string& reason = "") {
  v1::JobEvent event = At(seconds);
  event.mutable_state()->set_state(state);
  event.mutable_state()->set_reason(reason);
  return event;
}

v1::JobEvent Running(double seconds) {
  v1::JobEvent event = State(seconds, v1::RUNNING);
  event.set_steps_total(20);
  event.set_steps_per_epoch(10);
  return event;
}

// Step `step` of 20, 10 an epoch.
v1::JobEvent Step(double seconds, uint64_t step, double loss = 0.5) {
  v1::JobEvent event = At(seconds);
  event.set_steps_total(20);
  event.set_steps_per_epoch(10);
  event.mutable_step()->set_step(step);
  event.mutable_step()->set_epoch(step / 10);
  event.mutable_step()->set_loss(loss);
  event.mutable_step()->set_samples_per_second(2560);
  return event;
}

v1::JobEvent Evaluated(double seconds, uint64_t step) {
  v1::JobEvent event = At(seconds);
  event.mutable_evaluation()->set_step(step);
  event.mutable_evaluation()->set_accuracy(0.75);
  event.mutable_evaluation()->set_loss(0.6);
  return event;
}

v1::JobEvent Message(double seconds, const std::string& text) {
  v1::JobEvent event = At(seconds);
  event.set_message(text);
  return event;
}

absl::Duration Sec(double seconds) { return absl::Seconds(seconds); }

TEST(ProgressLinesTest, TellsAJobFromBeginningToEnd) {
  ProgressView view(ProgressView::Style::kLines);
  std::string text;
  text += view.Add(State(0, v1::QUEUED), Sec(100));
  text += view.Add(Message(0.5, "waiting for 1 of 2 workers"), Sec(100.5));
  text += view.Add(State(1, v1::STARTING, "all daemons are there"), Sec(101));
  text += view.Add(Running(2), Sec(102));
  for (int i = 0; i < 20; ++i) {
    text += view.Add(Step(3 + i, static_cast<uint64_t>(i)), Sec(103 + i));
    if (i == 9) text += view.Add(Evaluated(12.5, 10), Sec(112.5));
  }
  text += view.Add(State(23, v1::SUCCEEDED), Sec(123));
  EXPECT_EQ(text,
            "     0s  QUEUED\n"
            "   0.5s  waiting for 1 of 2 workers\n"
            "   1.0s  STARTING: all daemons are there\n"
            "   2.0s  RUNNING: 20 steps, 10 per epoch\n"
            "   3.0s  step 1/20 (5%)  epoch 1/2  loss 0.5000  2560 samples/s  19s left\n"
            "   8.0s  step 6/20 (30%)  epoch 1/2  loss 0.5000  2560 samples/s  14s left\n"
            "    12s  step 10/20 (50%)  epoch 1/2  loss 0.5000  2560 samples/s  10s left\n"
            "    12s  test accuracy 0.7500  loss 0.6000  after step 10\n"
            "    17s  step 15/20 (75%)  epoch 2/2  loss 0.5000  2560 samples/s  5.0s left\n"
            "    22s  step 20/20 (100%)  epoch 2/2  loss 0.5000  2560 samples/s\n"
            "    23s  SUCCEEDED\n");
  EXPECT_EQ(view.Tick(Sec(124), 80), "");
  EXPECT_EQ(view.End(), "");
}

TEST(ProgressLinesTest, AJobThatLostADaemonGoesBackAndItsPaceWithIt) {
  ProgressView view(ProgressView::Style::kLines);
  view.Add(Running(0), Sec(0));
  view.Add(Step(10, 14), Sec(10));
  EXPECT_EQ(view.Add(State(20, v1::PREEMPTED, "worker w-1 lost"), Sec(20)),
            "    20s  PREEMPTED: worker w-1 lost\n");
  EXPECT_EQ(view.Add(State(20, v1::QUEUED, "starts again"), Sec(20)),
            "    20s  QUEUED: starts again\n");
  EXPECT_EQ(view.Add(Running(30), Sec(30)), "    30s  RUNNING: 20 steps, 10 per epoch\n");
  EXPECT_THAT(view.Add(Step(40, 4), Sec(40)), Not(HasSubstr("left")));
  // Five steps in ten seconds, ten remain.
  EXPECT_THAT(view.Add(Step(50, 9), Sec(50)), HasSubstr("20s left"));
}

TEST(ProgressLinesTest, TellsOfCheckpoints) {
  ProgressView view(ProgressView::Style::kLines, "", true);
  v1::JobEvent event;
  event.mutable_time()->set_seconds(100);
  event.mutable_checkpoint()->set_step(40);
  event.mutable_checkpoint()->set_bytes(3 << 20);
  const std::string text = view.Add(event, absl::ZeroDuration());
  EXPECT_NE(text.find("checkpoint of step 40 is complete, 3"), std::string::npos) << text;
}

TEST(ProgressLinesTest, AFloodOfOldEventsIsFewLines) {
  ProgressView view(ProgressView::Style::kLines);
  std::string text = view.Add(Running(0), Sec(0));
  for (int i = 0; i < 20; ++i) text += view.Add(Step(i * 60, static_cast<uint64_t>(i)), Sec(0));
  // The first step, the last one, and RUNNING.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST(ProgressLinesTest, TellsOfDroppedEventsAndOfUnknownOnes) {
  ProgressView view(ProgressView::Style::kLines);
  v1::JobEvent event = At(0);
  event.set_dropped(17);
  EXPECT_EQ(view.Add(event, Sec(0)), "     0s  (17 earlier events are gone)\n");
  EXPECT_EQ(view.Add(At(1), Sec(1)), "");
}

TEST(ProgressLinesTest, BearsStepsWithoutTotals) {
  ProgressView view(ProgressView::Style::kLines);
  v1::JobEvent event = At(0);
  event.mutable_step()->set_step(4);
  event.mutable_step()->set_loss(std::nan(""));
  EXPECT_EQ(view.Add(event, Sec(0)), "     0s  step 5  loss nan  0.0 samples/s\n");
}

TEST(ProgressLinesTest, EstimatesFromTheFirstStepSeenWhenTheStartWasMissed) {
  ProgressView view(ProgressView::Style::kLines);
  EXPECT_THAT(view.Add(Step(100, 9), Sec(0)), Not(HasSubstr("left")));
  // Four steps in eight seconds, six remain.
  EXPECT_THAT(view.Add(Step(108, 13), Sec(8)), HasSubstr("12s left"));
}

TEST(ProgressLinesTest, ReasonsStayOnOneLine) {
  ProgressView view(ProgressView::Style::kLines);
  EXPECT_EQ(view.Add(State(0, v1::FAILED, "worker-1:\n\x1b[31mno file"), Sec(0)),
            "     0s  FAILED: worker-1:; [31mno file\n");
  EXPECT_EQ(view.Note("lost\n"), "     0s  lost\n");
}

TEST(ProgressBarTest, ShowsWhatItWaitsForBeforeTheFirstStep) {
  ProgressView view(ProgressView::Style::kBar);
  EXPECT_EQ(view.Tick(Sec(0), 80), "");
  EXPECT_EQ(view.Add(State(0, v1::QUEUED), Sec(10)), "     0s  QUEUED\n");
  EXPECT_EQ(view.Tick(Sec(12), 80), absl::StrCat(kErase, "QUEUED  2.0s"));
  EXPECT_EQ(view.Add(Message(1, "waiting for 1 of 2 workers"), Sec(13)),
            absl::StrCat(kErase, "   1.0s  waiting for 1 of 2 workers\n"));
  EXPECT_EQ(view.Tick(Sec(13), 80),
            absl::StrCat(kErase, "QUEUED: waiting for 1 of 2 workers  3.0s"));
  EXPECT_EQ(view.End(), kErase);
  EXPECT_EQ(view.End(), "");
}

TEST(ProgressBarTest, MovesWithTheSteps) {
  ProgressView view(ProgressView::Style::kBar);
  view.Add(Running(0), Sec(0));
  EXPECT_EQ(view.Add(Step(7, 6), Sec(7)), "");
  EXPECT_EQ(view.Tick(Sec(7), 100),
            absl::StrCat(kErase,
                         "[=========>                  ]   35%  7/20  epoch 1/2  loss 0.5000  "
                         "2560 samples/s  13s left"));
  // Between steps the time left goes down.
  EXPECT_THAT(view.Tick(Sec(10), 100), EndsWith("10s left"));
  EXPECT_THAT(view.Tick(Sec(60), 100), EndsWith("0s left"));
}

TEST(ProgressBarTest, IsRedrawnAtMostTenTimesASecond) {
  ProgressView view(ProgressView::Style::kBar);
  view.Add(Running(0), Sec(0));
  int drawn = 0;
  for (int i = 0; i < 1000; ++i) {
    view.Add(Step(i * 0.001, 3), absl::Milliseconds(i));
    drawn += view.Tick(absl::Milliseconds(i), 80).empty() ? 0 : 1;
  }
  EXPECT_EQ(drawn, 10);
}

TEST(ProgressBarTest, ALineTakesTheBarsPlaceAndTheBarComesBackAtOnce) {
  ProgressView view(ProgressView::Style::kBar);
  view.Add(Running(0), Sec(0));
  view.Add(Step(1, 0), Sec(1));
  EXPECT_NE(view.Tick(Sec(1), 80), "");
  EXPECT_EQ(view.Add(Evaluated(1, 1), Sec(1)),
            absl::StrCat(kErase, "   1.0s  test accuracy 0.7500  loss 0.6000  after step 1\n"));
  EXPECT_NE(view.Tick(Sec(1), 80), "");
}

TEST(ProgressBarTest, LeavesRoomForWhatCtrlCWrites) {
  ProgressView view(ProgressView::Style::kBar);
  view.Add(Running(0), Sec(0));
  view.Add(Step(7, 6, 123456.0), Sec(7));
  for (int width = -1; width < 200; ++width) {
    std::string text = view.Tick(Sec(100 + width), width);
    ASSERT_TRUE(absl::StartsWith(text, kErase)) << width;
    text.erase(0, std::string(kErase).size());
    const int columns = width <= 0 ? 80 : width;
    EXPECT_LE(static_cast<int>(text.size()), std::max(1, columns - 3)) << width << ": " << text;
  }
}

TEST(ProgressBarTest, NarrowTerminalsShowTheMostImportant) {
  ProgressView view(ProgressView::Style::kBar);
  view.Add(Running(0), Sec(0));
  view.Add(Step(7, 6), Sec(7));
  EXPECT_EQ(view.Tick(Sec(7), 74),
            absl::StrCat(kErase,
                         "[========>              ]   35%  7/20  epoch 1/2  loss 0.5000  "
                         "13s left"));
  EXPECT_EQ(view.Tick(Sec(8), 34), absl::StrCat(kErase, "[===>      ]   35%  loss 0.5000"));
  EXPECT_EQ(view.Tick(Sec(9), 10), absl::StrCat(kErase, ""));
}

TEST(ProgressBarTest, DisappearsWhenTheJobHasEnded) {
  ProgressView view(ProgressView::Style::kBar);
  view.Add(Running(0), Sec(0));
  view.Add(Step(1, 0), Sec(1));
  view.Tick(Sec(1), 80);
  EXPECT_EQ(view.Add(State(2, v1::CANCELLED, "by hand"), Sec(2)),
            absl::StrCat(kErase, "   2.0s  CANCELLED: by hand\n"));
  EXPECT_EQ(view.Tick(Sec(9), 80), "");
}

TEST(ProgressTest, EveryLossHasItsUnit) {
  ProgressView lines(ProgressView::Style::kLines, " nats/token");
  EXPECT_THAT(lines.Add(Step(1, 0), Sec(1)), HasSubstr("  loss 0.5000 nats/token  2560 samples/s"));
  EXPECT_THAT(lines.Add(Evaluated(2, 1), Sec(2)),
              HasSubstr("  loss 0.6000 nats/token  after step 1\n"));
  ProgressView bar(ProgressView::Style::kBar, " nats/token");
  bar.Add(Step(1, 0), Sec(1));
  EXPECT_THAT(bar.Tick(Sec(1), 100), HasSubstr("  loss 0.5000 nats/token  "));
}

TEST(ProgressViewTest, WithoutAccuracyWhereNothingIsRightOrWrong) {
  ProgressView view(ProgressView::Style::kLines, "", /*accuracy=*/false);
  EXPECT_EQ(view.Add(Evaluated(1, 1), Sec(101)), "     0s  test loss 0.6000  after step 1\n");
}

}  // namespace
}  // namespace sangam
