#include "worker/core/flow_ledger.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/tensor/buffer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/core/flow_tag.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr FlowRoute kRoute = {0, 1, FlowDirection::kForward};

FlowTag Tag(uint32_t micro_batch) { return {5, false, micro_batch, 1, FlowDirection::kForward}; }

absl::Status Add(FlowLedger* ledger, uint32_t micro_batch, uint64_t rows,
                 const FloatBuffer& buffer = FloatBuffer()) {
  return ledger->Add(kRoute, {Tag(micro_batch), {rows, 1}, buffer});
}

// "micro-batch:first+count", all that waits.
std::vector<std::string> Pieces(FlowLedger* ledger) {
  std::vector<std::string> texts;
  while (const std::optional<FlowPiece> piece = ledger->TakePiece()) {
    texts.push_back(absl::StrCat(piece->tensor.tag.micro_batch, ":", piece->first_element, "+",
                                 piece->element_count));
  }
  return texts;
}

TEST(FlowLedgerTest, CountsCreditsOfEachRouteUntilTaken) {
  FlowLedger ledger(2, 10);
  EXPECT_TRUE(ledger.Reserve(kRoute));
  EXPECT_TRUE(ledger.Reserve(kRoute));
  EXPECT_FALSE(ledger.Reserve(kRoute));
  EXPECT_TRUE(ledger.Reserve({1, 1, FlowDirection::kForward}));
  EXPECT_TRUE(ledger.Reserve({0, 1, FlowDirection::kBackward}));
  ledger.Release(kRoute);
  EXPECT_TRUE(ledger.Reserve(kRoute));
  ASSERT_TRUE(Add(&ledger, 0, 1).ok());
  EXPECT_FALSE(ledger.Reserve(kRoute));
  EXPECT_EQ(ledger.OldestOf(kRoute), Tag(0));
  ASSERT_TRUE(ledger.OnTaken(Tag(0)).has_value());
  EXPECT_TRUE(ledger.Reserve(kRoute));
  EXPECT_FALSE(ledger.OnTaken(Tag(0)).has_value());
  EXPECT_FALSE(ledger.Reserve(kRoute));
}

TEST(FlowLedgerTest, WhatWasNotReservedOrSentBeforeIsRefused) {
  FlowLedger ledger(2, 10);
  EXPECT_EQ(Add(&ledger, 0, 1).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(ledger.Reserve(kRoute) && ledger.Reserve(kRoute));
  ASSERT_TRUE(Add(&ledger, 0, 1).ok());
  EXPECT_EQ(Add(&ledger, 0, 1).code(), absl::StatusCode::kAlreadyExists);
}

TEST(FlowLedgerTest, CutsTensorsIntoPiecesInOrder) {
  FlowLedger ledger(3, 10);
  for (uint32_t m = 0; m < 3; ++m) ASSERT_TRUE(ledger.Reserve(kRoute));
  ASSERT_TRUE(Add(&ledger, 2, 25).ok());
  ASSERT_TRUE(Add(&ledger, 0, 10).ok());
  ASSERT_TRUE(Add(&ledger, 1, 0).ok());  // an empty one is one piece
  EXPECT_THAT(Pieces(&ledger), ElementsAre("2:0+10", "2:10+10", "2:20+5", "0:0+10", "1:0+0"));
  EXPECT_THAT(Pieces(&ledger), IsEmpty());
}

TEST(FlowLedgerTest, SendsAgainWhatIsUntakenFromItsBeginning) {
  FlowLedger ledger(3, 10);
  for (uint32_t m = 0; m < 3; ++m) {
    ASSERT_TRUE(ledger.Reserve(kRoute));
    ASSERT_TRUE(Add(&ledger, m, 15).ok());
  }
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ledger.TakePiece().has_value());
  ASSERT_TRUE(ledger.OnTaken(Tag(0)).has_value());
  ledger.SendAgain();
  EXPECT_THAT(Pieces(&ledger), ElementsAre("1:0+10", "1:10+5", "2:0+10", "2:10+5"));
}

TEST(FlowLedgerTest, TensorThatIsTakenWhileItIsSentIsSentNoFurther) {
  FlowLedger ledger(2, 10);
  for (uint32_t m = 0; m < 2; ++m) {
    ASSERT_TRUE(ledger.Reserve(kRoute));
    ASSERT_TRUE(Add(&ledger, m, 15).ok());
  }
  ASSERT_TRUE(ledger.TakePiece().has_value());
  ASSERT_TRUE(ledger.OnTaken(Tag(0)).has_value());
  EXPECT_THAT(Pieces(&ledger), ElementsAre("1:0+10", "1:10+5"));
}

TEST(FlowLedgerTest, HoldsBuffersUntilTaken) {
  FlowLedger ledger(1, 10);
  const FloatBuffer buffer = FloatBuffer::Allocate(5).value();
  ASSERT_TRUE(ledger.Reserve(kRoute));
  ASSERT_TRUE(Add(&ledger, 0, 5, buffer).ok());
  EXPECT_THAT(Pieces(&ledger), ElementsAre("0:0+5"));
  EXPECT_FALSE(buffer.unique());
  ledger.OnTaken(Tag(0));
  EXPECT_TRUE(buffer.unique());
}

}  // namespace
}  // namespace sangam
