#include "common/base/log.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

std::string Logged(LogLevel level, absl::string_view event, absl::string_view fields) {
  testing::internal::CaptureStderr();
  Log(level, event, fields);
  return testing::internal::GetCapturedStderr();
}

TEST(LogTest, WritesOneLineWithLevelEventAndFields) {
  const std::string line = Logged(LogLevel::kWarning, "lease.expired", "worker=w1 silent=5s");
  EXPECT_THAT(line, HasSubstr("warning lease.expired worker=w1 silent=5s\n"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST(LogTest, BracesAreNoFormat) {
  EXPECT_THAT(Logged(LogLevel::kInfo, "x", "text={} {0}"), HasSubstr("x text={} {0}\n"));
}

TEST(LogTest, LevelDropsWhatIsBelow) {
  ASSERT_TRUE(SetLogLevel("error").ok());
  EXPECT_EQ(Logged(LogLevel::kWarning, "x", ""), "");
  EXPECT_NE(Logged(LogLevel::kError, "x", ""), "");
  SetLogLevel(LogLevel::kInfo);
  EXPECT_NE(Logged(LogLevel::kInfo, "x", ""), "");
}

TEST(LogTest, UnknownLevelSaysWhatIsExpected) {
  const absl::Status status = SetLogLevel("loud");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"loud\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr("debug, info, warning or error"));
}

TEST(LogValueTest, QuotesWhatIsNotOneWord) {
  EXPECT_EQ(LogValue("w1"), "w1");
  EXPECT_EQ(LogValue(""), "\"\"");
  EXPECT_EQ(LogValue("no such\nfile"), "\"no such\\nfile\"");
  EXPECT_EQ(LogValue("a=b"), "\"a=b\"");
}

}  // namespace
}  // namespace sangam
