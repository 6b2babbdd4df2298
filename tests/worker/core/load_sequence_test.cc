#include "worker/core/load_sequence.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/core/instruction.h"
#include "worker/core/timeline.h"

namespace sangam {
namespace {

TEST(LoadSequenceTest, SaysWhatTheProgramsWillLoadRoundAfterRound) {
  const std::vector<Instruction> train = {
      {Op::kLoadBatch, 0, 4}, {Op::kForward, 0}, {Op::kLoadBatch, 0, 5}, {Op::kEndShare, 0, 2}};
  const std::vector<Instruction> evaluate = {
      {Op::kLoadBatch, 0, 1}, {Op::kScore, 0, 1}, {Op::kEndEvaluation}};
  Timeline timeline;
  timeline.steps_total = 3;
  timeline.steps_per_epoch = 2;
  timeline.evaluate_every_epochs = 1;
  LoadSequence sequence(timeline, &train, &evaluate);
  std::string text;
  while (const std::optional<Load> load = sequence.Next()) {
    absl::StrAppend(&text, load->round.kind == RoundKind::kTrain ? " t" : " e", load->round.step,
                    ":", load->index);
  }
  EXPECT_EQ(text, " t0:4 t0:5 t1:4 t1:5 e2:1 t2:4 t2:5 e3:1");
  EXPECT_FALSE(sequence.Next().has_value());
}

TEST(LoadSequenceTest, ALaneWithoutChunksLoadsNothingToEvaluate) {
  const std::vector<Instruction> train = {{Op::kLoadBatch, 0, 0}};
  const std::vector<Instruction> evaluate = {{Op::kEndEvaluation}};
  Timeline timeline;
  timeline.steps_total = 1;
  LoadSequence sequence(timeline, &train, &evaluate);
  EXPECT_TRUE(sequence.Next().has_value());
  EXPECT_FALSE(sequence.Next().has_value());
}

}  // namespace
}  // namespace sangam
