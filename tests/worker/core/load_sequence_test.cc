#include "worker/core/load_sequence.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/core/instruction.h"
#include "worker/core/step_program.h"
#include "worker/core/timeline.h"

namespace sangam {
namespace {

TEST(LoadSequenceTest, SaysWhatTheProgramsWillLoadRoundAfterRound) {
  StepProgram train;
  train.lanes = {
      {},
      {{Op::kLoadBatch, 0, 4}, {Op::kForward, 0}, {Op::kLoadBatch, 0, 5}, {Op::kEndShare, 0, 2}}};
  StepProgram evaluate;
  evaluate.lanes = {{}, {{Op::kLoadBatch, 0, 1}, {Op::kScore, 0, 1}, {Op::kEndEvaluation}}};
  evaluate.windows = 3;
  evaluate.stride = 4;
  evaluate.end = 9;
  Timeline timeline;
  timeline.steps_total = 3;
  timeline.steps_per_epoch = 2;
  timeline.evaluate_every_epochs = 1;
  LoadSequence sequence(timeline, &train, &evaluate, 1);
  std::string text;
  while (const std::optional<Load> load = sequence.Next()) {
    absl::StrAppend(&text, load->round.kind == RoundKind::kTrain ? " t" : " e", load->round.step,
                    ":", load->index);
  }
  EXPECT_EQ(text, " t0:4 t0:5 t1:4 t1:5 e2:1 e2:5 t2:4 t2:5 e3:1 e3:5");
  EXPECT_FALSE(sequence.Next().has_value());
}

TEST(LoadSequenceTest, SaysEveryMicroBatchThatIsLoadedTogether) {
  StepProgram train;
  train.lanes = {
      {{Op::kLoadBatch, 0, 2, 0, 0, 0, false, 3}, {Op::kForward, 0, 2}, {Op::kLoadBatch, 0, 5}}};
  Timeline timeline;
  timeline.steps_total = 2;
  timeline.evaluate = false;
  LoadSequence sequence(timeline, &train, nullptr, 0);
  std::string text;
  while (const std::optional<Load> load = sequence.Next()) {
    absl::StrAppend(&text, " ", load->round.step, ":", load->index);
  }
  EXPECT_EQ(text, " 0:2 0:3 0:4 0:5 1:2 1:3 1:4 1:5");
}

TEST(LoadSequenceTest, ALaneWithoutChunksLoadsNothingToEvaluate) {
  StepProgram train;
  train.lanes = {{{Op::kLoadBatch, 0, 0}}};
  StepProgram evaluate;
  evaluate.lanes = {{{Op::kEndEvaluation}}};
  Timeline timeline;
  timeline.steps_total = 1;
  LoadSequence sequence(timeline, &train, &evaluate, 0);
  EXPECT_TRUE(sequence.Next().has_value());
  EXPECT_FALSE(sequence.Next().has_value());
}

}  // namespace
}  // namespace sangam
