#include "client/error_json.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/errors/error_details.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sangam {
namespace {

TEST(ErrorJsonTest, HasWhatTheErrorHas) {
  EXPECT_EQ(
      ErrorToJson(absl::NotFoundError("no job 7")),
      "{\"error\":{\"code\":\"NOT_FOUND\",\"message\":\"no job 7\",\"reason\":\"NOT_FOUND\"}}");
  absl::Status status = WithReason(absl::UnavailableError("x"), "DRAINING", {{"server", "s1"}});
  status = WithRetryDelay(status, absl::Milliseconds(1500));
  status = WithFieldViolations(status, {{"batch.size", "found 0"}});
  EXPECT_EQ(ErrorToJson(status),
            "{\"error\":{\"code\":\"UNAVAILABLE\",\"message\":\"x\",\"reason\":\"DRAINING\","
            "\"metadata\":{\"server\":\"s1\"},\"field_violations\":[{\"field\":\"batch.size\","
            "\"description\":\"found 0\"}],\"retry_delay_seconds\":1.5}}");
}

TEST(ErrorJsonTest, IsAlwaysJson) {
  EXPECT_TRUE(nlohmann::json::accept(ErrorToJson(absl::InternalError("\xff\"\n"))));
}

}  // namespace
}  // namespace sangam
