#include "common/errors/error_details.h"

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(ErrorDetailsTest, ComeBack) {
  absl::Status status = absl::ResourceExhaustedError("no room");
  EXPECT_FALSE(ReasonOf(status).has_value());
  EXPECT_EQ(ReasonName(status), "RESOURCE_EXHAUSTED");
  status = WithReason(status, "MEMORY_BUDGET", {{"limit", "7"}});
  status = WithRetryDelay(status, absl::Milliseconds(1250));
  status = WithFieldViolations(status, {{"a.b[1]", "found 0"}, {"c", "missing"}});
  // On its way up the status gets words in front; nothing else changes.
  status = WithContext(status, "job 3");
  const std::optional<ErrorReason> reason = ReasonOf(status);
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->reason, "MEMORY_BUDGET");
  EXPECT_EQ(reason->metadata.at("limit"), "7");
  EXPECT_EQ(ReasonName(status), "MEMORY_BUDGET");
  EXPECT_EQ(RetryDelayOf(status), absl::Milliseconds(1250));
  const std::vector<FieldViolation> violations = FieldViolationsOf(status);
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].field, "a.b[1]");
  EXPECT_EQ(violations[1].description, "missing");
}

TEST(ErrorDetailsTest, OkHasNone) {
  const absl::Status status = WithRetryDelay(WithReason(absl::OkStatus(), "X"), absl::Seconds(1));
  EXPECT_TRUE(status.ok());
  EXPECT_FALSE(ReasonOf(status).has_value());
}

TEST(ErrorDetailsTest, WhatIsMalformedIsNotThere) {
  absl::Status status = absl::InternalError("x");
  for (const char* name : {"ErrorInfo", "BadRequest", "RetryInfo"}) {
    status.SetPayload(std::string("type.googleapis.com/google.rpc.") + name, absl::Cord("\xff"));
  }
  EXPECT_FALSE(ReasonOf(status).has_value());
  EXPECT_FALSE(RetryDelayOf(status).has_value());
  EXPECT_TRUE(FieldViolationsOf(status).empty());
}

}  // namespace
}  // namespace sangam
