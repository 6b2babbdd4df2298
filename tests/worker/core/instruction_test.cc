#include "worker/core/instruction.h"

#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(InstructionTest, ToStringNamesWhatMatters) {
  EXPECT_EQ(ToString(Instruction{Op::kLoadBatch, 0, 3}), "LoadBatch mb 3");
  EXPECT_EQ(ToString(Instruction{Op::kReceive, 0, 3, 0, 1, 7}), "Receive boundary 7 mb 3");
  EXPECT_EQ(ToString(Instruction{Op::kAwaitWeights, 1}), "AwaitWeights b1");
  EXPECT_EQ(ToString(Instruction{Op::kForward, 2, 5}), "Forward b2 mb 5");
  EXPECT_EQ(ToString(Instruction{Op::kSend, 0, 3, 0, 1, 7}), "Send boundary 7 mb 3");
  EXPECT_EQ(ToString(Instruction{Op::kLoss, 0, 4}), "Loss mb 4");
  EXPECT_EQ(ToString(Instruction{Op::kEndShare, 0, 6}), "EndShare share 6");
  EXPECT_EQ(ToString(Instruction{Op::kReceiveGradient, 0, 3, 0, 1, 7}),
            "ReceiveGradient boundary 7 mb 3");
  EXPECT_EQ(ToString(Instruction{Op::kBackward, 1, 2, 0, 0, 0, true}), "Backward b1 mb 2");
  EXPECT_EQ(ToString(Instruction{Op::kBackward, 1, 2}), "Backward b1 mb 2 weights only");
  EXPECT_EQ(ToString(Instruction{Op::kBackwardInput, 1, 2, 0, 0, 0, true}),
            "BackwardInput b1 mb 2");
  EXPECT_EQ(ToString(Instruction{Op::kBackwardWeights, 1, 2}), "BackwardWeights b1 mb 2");
  EXPECT_EQ(ToString(Instruction{Op::kSendGradient, 0, 3, 0, 1, 7}),
            "SendGradient boundary 7 mb 3");
  EXPECT_EQ(ToString(Instruction{Op::kEmitGradient, 1, 5}), "EmitGradient b1 share 5");
  EXPECT_EQ(ToString(Instruction{Op::kForward, 2, 4, 0, 0, 0, false, 4}), "Forward b2 mb 4-7");
  EXPECT_EQ(ToString(Instruction{Op::kEmitGradient, 1, 4, 0, 0, 0, false, 2}),
            "EmitGradient b1 share 4-5");
  EXPECT_EQ(ToString(Instruction{Op::kRelease, 0, 4}), "Release mb 4");
  EXPECT_EQ(ToString(Instruction{Op::kScore, 0, 7}), "Score mb 7");
  EXPECT_EQ(ToString(Instruction{Op::kEndEvaluation}), "EndEvaluation");
}

}  // namespace
}  // namespace sangam
