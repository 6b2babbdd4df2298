#include "worker/core/flow_inbox.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor/buffer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/core/flow_tag.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using Fate = FlowInbox::Fate;

constexpr FlowRoute kRoute = {0, 1, FlowDirection::kForward};

FlowTag Tag(uint32_t micro_batch) { return {5, false, micro_batch, 1, FlowDirection::kForward}; }

class FlowInboxTest : public ::testing::Test {
 protected:
  absl::StatusOr<FlowInbox::Arrival> Piece(uint32_t micro_batch, uint64_t first, uint64_t count,
                                           FlowShape shape = {2, 10}) {
    return inbox_.OnPiece(kRoute, Tag(micro_batch), shape, first, count, [this] {
      ++allocated_;
      return FloatBuffer::Allocate(20);
    });
  }
  void Put(uint32_t micro_batch) {
    ASSERT_TRUE(Piece(micro_batch, 0, 20).value().last);
    inbox_.Complete(Tag(micro_batch));
  }

  FlowInbox inbox_{2};
  int allocated_ = 0;
};

TEST_F(FlowInboxTest, TensorIsThereWhenItsLastPieceIsWritten) {
  FlowInbox::Arrival arrival = Piece(0, 0, 15).value();
  EXPECT_EQ(arrival.fate, Fate::kWrite);
  EXPECT_FALSE(arrival.last);
  const float* memory = arrival.elements.data();
  arrival = Piece(0, 15, 5).value();
  EXPECT_EQ(arrival.elements.data(), memory);
  EXPECT_TRUE(arrival.last);
  EXPECT_EQ(inbox_.Find(Tag(0)), nullptr);
  EXPECT_FALSE(inbox_.Take(Tag(0)).has_value());
  inbox_.Complete(Tag(0));
  ASSERT_NE(inbox_.Find(Tag(0)), nullptr);
  EXPECT_EQ(inbox_.Find(Tag(0))->shape, (FlowShape{2, 10}));
  EXPECT_EQ(inbox_.Take(Tag(0))->elements.data(), memory);
  EXPECT_FALSE(inbox_.Take(Tag(0)).has_value());
  EXPECT_EQ(allocated_, 1);
}

TEST_F(FlowInboxTest, PiecesOfSeveralTensorsMayBeMixed) {
  EXPECT_FALSE(Piece(0, 0, 10).value().last);
  EXPECT_FALSE(Piece(1, 0, 10).value().last);
  EXPECT_TRUE(Piece(0, 10, 10).value().last);
  EXPECT_TRUE(Piece(1, 10, 10).value().last);
}

TEST_F(FlowInboxTest, MoreThanCreditsIsRefused) {
  Put(0);
  Put(1);
  const absl::Status status = Piece(2, 0, 20).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("found 3 tensors untaken on lane 0"));
  inbox_.Take(Tag(1));
  EXPECT_TRUE(Piece(2, 0, 20).ok());
  EXPECT_FALSE(Piece(3, 0, 20).ok());
}

TEST_F(FlowInboxTest, WhatIsHereIsDroppedAndWhatWasTakenIsAnswered) {
  Put(0);
  Put(1);
  EXPECT_EQ(Piece(0, 0, 15).value().fate, Fate::kDrop);
  EXPECT_EQ(Piece(0, 15, 5).value().fate, Fate::kDrop);
  inbox_.Take(Tag(0));
  EXPECT_EQ(Piece(0, 0, 15).value().fate, Fate::kAnswer);
  EXPECT_EQ(Piece(0, 15, 5).value().fate, Fate::kDrop);
  EXPECT_EQ(allocated_, 2);
}

TEST_F(FlowInboxTest, RemembersWhatASenderCanHaveUntaken) {
  for (uint32_t m = 0; m < 6; ++m) {
    Put(m);
    inbox_.Take(Tag(m));
  }
  EXPECT_EQ(Piece(4, 0, 20).value().fate, Fate::kAnswer);
  EXPECT_EQ(Piece(5, 0, 20).value().fate, Fate::kAnswer);
}

TEST_F(FlowInboxTest, NewStreamBeginsIncompleteTensorsAnew) {
  Put(0);
  ASSERT_TRUE(Piece(1, 0, 15).ok());
  inbox_.DropIncomplete();
  EXPECT_NE(inbox_.Find(Tag(0)), nullptr);
  EXPECT_EQ(Piece(0, 0, 15).value().fate, Fate::kDrop);
  EXPECT_EQ(Piece(1, 0, 20).value().fate, Fate::kWrite);
}

TEST_F(FlowInboxTest, PiecesOutOfOrderAndChangedShapesAreRefused) {
  EXPECT_EQ(Piece(0, 5, 5).status().message(), "first_element: found 5, expected 0");
  ASSERT_TRUE(Piece(0, 0, 5).ok());
  EXPECT_EQ(Piece(0, 0, 5).status().message(), "first_element: found 0, expected 5");
  EXPECT_THAT(std::string(Piece(0, 5, 5, {1, 10}).status().message()),
              HasSubstr("shape: found [1, 10], expected [2, 10]"));
}

TEST_F(FlowInboxTest, MemoryThatCannotBeHadTakesNoCredit) {
  const auto refuse = [] { return absl::StatusOr<FloatBuffer>(absl::InternalError("none")); };
  EXPECT_FALSE(inbox_.OnPiece(kRoute, Tag(0), {2, 10}, 0, 20, refuse).ok());
  Put(0);
  Put(1);
}

}  // namespace
}  // namespace sangam
