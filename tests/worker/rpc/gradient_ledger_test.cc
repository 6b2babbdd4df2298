#include "worker/rpc/gradient_ledger.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/tensor.pb.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Segment 0 has pages from 0, 64 (and 128, which lies elsewhere) and 192; segment 2 has one.
const PageRange kA0 = {0, 0, 64, 1};
const PageRange kA1 = {0, 64, 64, 1};
const PageRange kA3 = {0, 192, 10, 1};
const PageRange kC0 = {2, 0, 5, 1};

constexpr uint64_t kFirstStep = 3;

class GradientLedgerTest : public ::testing::Test {
 protected:
  absl::Status Add(const PageRange& page, uint64_t step, ShareSpan span = {0, 1},
                   uint32_t use = 0) {
    return ledger_.Add({page, step, use, span, 10, buffer_});
  }

  // "segment:first:step[span)" of what is sent, in order; "u1" in front of the span of use 1.
  std::vector<std::string> SendAll() {
    std::vector<std::string> sent;
    while (const std::optional<PageGradient> next = ledger_.TakeNext()) {
      EXPECT_EQ(next->samples, 10);
      EXPECT_EQ(next->sum.data(), buffer_.data());
      sent.push_back(absl::StrCat(next->page.segment, ":", next->page.first_element, ":",
                                  next->step, next->use > 0 ? absl::StrCat("u", next->use) : "",
                                  ToString(next->span)));
    }
    return sent;
  }

  absl::StatusOr<bool> OnWeights(const PageRange& page, uint64_t step) {
    v1::FrameHeader header;
    header.set_segment(page.segment);
    header.set_first_element(page.first_element);
    header.set_element_count(page.element_count);
    header.set_step(step);
    return ledger_.OnWeights(header, page.element_count * sizeof(float));
  }

  // "segment:first+count@step" of every subscription.
  std::vector<std::string> Subscriptions() {
    std::vector<std::string> ranges;
    for (const v1::FrameHeader& range : ledger_.Subscriptions()) {
      ranges.push_back(absl::StrCat(range.segment(), ":", range.first_element(), "+",
                                    range.element_count(), "@", range.step()));
    }
    return ranges;
  }

  FloatBuffer buffer_ = FloatBuffer::Allocate(256).value();
  GradientLedger ledger_{{kA0, kA1, kA3, kC0}, kFirstStep, 6};
};

TEST_F(GradientLedgerTest, OlderStepsAndThenLowerSegmentsGoFirst) {
  ASSERT_TRUE(Add(kC0, 3).ok());
  ASSERT_TRUE(Add(kA1, 4).ok());
  ASSERT_TRUE(Add(kA1, 3, {2, 4}).ok());
  ASSERT_TRUE(Add(kA1, 3, {0, 2}).ok());
  ASSERT_TRUE(Add(kA0, 3).ok());
  EXPECT_THAT(SendAll(),
              ElementsAre("0:0:3[0,1)", "0:64:3[0,2)", "0:64:3[2,4)", "2:0:3[0,1)", "0:64:4[0,1)"));
}

TEST_F(GradientLedgerTest, WhatWasSentIsHeldUntilItIsAnswered) {
  ASSERT_TRUE(Add(kA0, 3).ok());
  ASSERT_TRUE(Add(kA1, 3).ok());
  SendAll();
  EXPECT_EQ(ledger_.num_unanswered(), 2);
  // The weights that the gradient was taken at answer nothing.
  EXPECT_EQ(OnWeights(kA0, 3).value(), true);
  EXPECT_EQ(ledger_.num_unanswered(), 2);
  EXPECT_EQ(OnWeights(kA0, 4).value(), true);
  EXPECT_EQ(ledger_.num_unanswered(), 1);
  EXPECT_FALSE(buffer_.unique());
  EXPECT_EQ(OnWeights(kA1, 4).value(), true);
  EXPECT_TRUE(buffer_.unique());
}

TEST_F(GradientLedgerTest, LostStreamSendsTheUnansweredAgain) {
  ASSERT_TRUE(Add(kA0, 3).ok());
  ASSERT_TRUE(Add(kA1, 3).ok());
  SendAll();
  ASSERT_TRUE(Add(kC0, 3).ok());
  ASSERT_TRUE(OnWeights(kA0, 4).ok());
  ledger_.SendAgain();
  EXPECT_THAT(SendAll(), ElementsAre("0:64:3[0,1)", "2:0:3[0,1)"));
}

TEST_F(GradientLedgerTest, AnswerThatComesBeforeTheGradientIsSentAgainMakesItNeedless) {
  ASSERT_TRUE(Add(kA0, 3).ok());
  ASSERT_TRUE(Add(kA0, 4).ok());
  ASSERT_TRUE(OnWeights(kA0, 4).ok());
  EXPECT_THAT(SendAll(), ElementsAre("0:0:4[0,1)"));
}

TEST_F(GradientLedgerTest, UsesOfAPageAreGradientsOfTheirOwn) {
  ASSERT_TRUE(Add(kA0, 3, {0, 2}, 1).ok());
  ASSERT_TRUE(Add(kA0, 3, {2, 3}, 0).ok());
  ASSERT_TRUE(Add(kA0, 3, {0, 2}, 0).ok());
  const absl::Status again = Add(kA0, 3, {0, 2}, 1);
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), HasSubstr("step 3, use 1, span [0,2)"));
  EXPECT_THAT(SendAll(), ElementsAre("0:0:3[0,2)", "0:0:3[2,3)", "0:0:3u1[0,2)"));
  ledger_.SendAgain();
  EXPECT_THAT(SendAll(), ElementsAre("0:0:3[0,2)", "0:0:3[2,3)", "0:0:3u1[0,2)"));
  // One answer for all of them.
  ASSERT_TRUE(Add(kA0, 4, {0, 2}, 1).ok());
  ASSERT_TRUE(OnWeights(kA0, 4).ok());
  EXPECT_EQ(ledger_.num_unanswered(), 1);
  EXPECT_THAT(SendAll(), ElementsAre("0:0:4u1[0,2)"));
}

TEST_F(GradientLedgerTest, GradientOfAFinishedStepIsDropped) {
  ASSERT_TRUE(OnWeights(kA0, 5).ok());
  ASSERT_TRUE(Add(kA0, 4).ok());
  EXPECT_EQ(ledger_.num_unanswered(), 0);
  ASSERT_TRUE(Add(kA0, 5).ok());
  EXPECT_EQ(ledger_.num_unanswered(), 1);
}

TEST_F(GradientLedgerTest, OlderWeightsAreNotWanted) {
  EXPECT_EQ(OnWeights(kA0, 2).value(), false);
  EXPECT_EQ(OnWeights(kA0, 5).value(), true);
  EXPECT_EQ(OnWeights(kA0, 5).value(), false);
  EXPECT_EQ(OnWeights(kA0, 4).value(), false);
  EXPECT_EQ(OnWeights(kA0, 6).value(), true);
}

TEST_F(GradientLedgerTest, SubscribesToRunsOfPagesFromTheStepThatIsWanted) {
  EXPECT_THAT(Subscriptions(), ElementsAre("0:0+202@3", "2:0+5@3"));
  ASSERT_TRUE(OnWeights(kA1, 3).ok());
  EXPECT_THAT(Subscriptions(), ElementsAre("0:0+64@3", "0:64+64@4", "0:192+10@3", "2:0+5@3"));
  ASSERT_TRUE(OnWeights(kA3, 3).ok());
  EXPECT_THAT(Subscriptions(), ElementsAre("0:0+64@3", "0:64+138@4", "2:0+5@3"));
}

TEST_F(GradientLedgerTest, UnansweredAreBounded) {
  for (uint32_t share = 0; share < 6; ++share) {
    ASSERT_TRUE(Add(kA0, 3, {share, share + 1}).ok());
  }
  const absl::Status status = Add(kA0, 3, {6, 7});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected at most 6"));
  ASSERT_TRUE(OnWeights(kA0, 4).ok());
  EXPECT_TRUE(Add(kA0, 4).ok());
}

TEST_F(GradientLedgerTest, WhatDoesNotBelongHereIsRefused) {
  EXPECT_EQ(Add({0, 128, 64, 0}, 3).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Add({1, 0, 64, 1}, 3).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(Add(kA0, 3).ok());
  EXPECT_EQ(Add(kA0, 3).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(OnWeights({0, 128, 64, 1}, 4).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OnWeights({0, 0, 63, 1}, 4).status().code(), absl::StatusCode::kInvalidArgument);
  v1::FrameHeader header;
  header.set_element_count(64);
  header.set_step(4);
  const absl::Status status = ledger_.OnWeights(header, 255).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("64 elements in 255 bytes"));
  EXPECT_EQ(ledger_.num_unanswered(), 1);
}

TEST_F(GradientLedgerTest, ClearLetsGoOfEverything) {
  ASSERT_TRUE(Add(kA0, 3).ok());
  ASSERT_TRUE(Add(kA1, 3).ok());
  ledger_.TakeNext();
  ledger_.Clear();
  EXPECT_TRUE(buffer_.unique());
  EXPECT_THAT(SendAll(), ElementsAre());
  ledger_.SendAgain();
  EXPECT_THAT(SendAll(), ElementsAre());
}

}  // namespace
}  // namespace sangam
