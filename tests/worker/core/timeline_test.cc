#include "worker/core/timeline.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

// "e" evaluates, "t" trains, "f" finishes; each with its step.
std::string Rounds(const Timeline& timeline) {
  std::string text;
  std::optional<Round> round = timeline.First();
  for (int i = 0; round.has_value() && i < 100; ++i) {
    const char* kind = round->kind == RoundKind::kTrain      ? "t"
                       : round->kind == RoundKind::kEvaluate ? "e"
                                                             : "f";
    absl::StrAppend(&text, text.empty() ? "" : " ", kind, round->step);
    round = timeline.Next(*round);
  }
  return text;
}

TEST(TimelineTest, TrainsEveryStepAndEvaluatesTheLastWeights) {
  Timeline timeline;
  timeline.steps_total = 3;
  timeline.steps_per_epoch = 2;
  EXPECT_EQ(Rounds(timeline), "t0 t1 t2 f3 e3");
}

TEST(TimelineTest, EvaluatesAfterEveryFewEpochs) {
  Timeline timeline;
  timeline.steps_total = 7;
  timeline.steps_per_epoch = 2;
  timeline.evaluate_every_epochs = 1;
  EXPECT_EQ(Rounds(timeline), "t0 t1 e2 t2 t3 e4 t4 t5 e6 t6 f7 e7");
  timeline.evaluate_every_epochs = 2;
  EXPECT_EQ(Rounds(timeline), "t0 t1 t2 t3 e4 t4 t5 t6 f7 e7");
}

TEST(TimelineTest, EvaluatesTheLastWeightsOnceWhenAnEpochEndsThere) {
  Timeline timeline;
  timeline.steps_total = 4;
  timeline.steps_per_epoch = 2;
  timeline.evaluate_every_epochs = 1;
  EXPECT_EQ(Rounds(timeline), "t0 t1 e2 t2 t3 f4 e4");
}

TEST(TimelineTest, NeverEvaluatesWhenOff) {
  Timeline timeline;
  timeline.steps_total = 3;
  timeline.evaluate_every_epochs = 1;
  timeline.evaluate = false;
  EXPECT_EQ(Rounds(timeline), "t0 t1 t2 f3");
}

TEST(TimelineTest, MayBeginLater) {
  Timeline timeline;
  timeline.first_step = 2;
  timeline.steps_total = 3;
  timeline.steps_per_epoch = 2;
  timeline.evaluate_every_epochs = 1;
  EXPECT_EQ(Rounds(timeline), "e2 t2 f3 e3");
  timeline.first_step = 3;
  EXPECT_EQ(Rounds(timeline), "f3 e3");
}

TEST(TimelineTest, HugeIntervalsDoNotOverflow) {
  Timeline timeline;
  timeline.steps_total = 3;
  timeline.steps_per_epoch = std::numeric_limits<uint64_t>::max() / 2;
  timeline.evaluate_every_epochs = 4;
  EXPECT_EQ(Rounds(timeline), "t0 t1 t2 f3 e3");
}

}  // namespace
}  // namespace sangam
