#include "worker/core/instruction.h"

#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(InstructionTest, ReadsAsTheGoldenTextsWriteIt) {
  EXPECT_EQ(ToString(Instruction{Op::kLoadBatch, 0, 3}), "LoadBatch 3");
  EXPECT_EQ(ToString(Instruction{Op::kAwaitWeights, 1}), "AwaitWeights b1");
  EXPECT_EQ(ToString(Instruction{Op::kForward, 2}), "Forward b2");
  EXPECT_EQ(ToString(Instruction{Op::kLoss, 0, 4}), "Loss 4");
  EXPECT_EQ(ToString(Instruction{Op::kBackward, 1, 0, true}), "Backward b1");
  EXPECT_EQ(ToString(Instruction{Op::kBackward, 0, 0, false}), "Backward b0 weights");
  EXPECT_EQ(ToString(Instruction{Op::kEmitGradient, 1, 5}), "EmitGradient b1 share 5");
  EXPECT_EQ(ToString(Instruction{Op::kEndShare, 0, 5}), "EndShare 5");
  EXPECT_EQ(ToString(Instruction{Op::kScore, 0, 9}), "Score 9");
  EXPECT_EQ(ToString(Instruction{Op::kEndEvaluation}), "EndEvaluation");
}

TEST(InstructionTest, EqualWhenEveryFieldIs) {
  const Instruction one{Op::kBackward, 1, 2, true};
  EXPECT_TRUE(one == (Instruction{Op::kBackward, 1, 2, true}));
  EXPECT_FALSE(one == (Instruction{Op::kForward, 1, 2, true}));
  EXPECT_FALSE(one == (Instruction{Op::kBackward, 0, 2, true}));
  EXPECT_FALSE(one == (Instruction{Op::kBackward, 1, 3, true}));
  EXPECT_FALSE(one == (Instruction{Op::kBackward, 1, 2, false}));
}

}  // namespace
}  // namespace sangam
