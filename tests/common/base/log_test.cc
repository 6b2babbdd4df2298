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

TEST(LogTest, WritesJson) {
  ASSERT_TRUE(SetLogFormat("json", "sangam-server").ok());
  const std::string line = Logged(LogLevel::kWarning, "worker lost", "job=7 worker=w1");
  SetLogFormat(LogFormat::kText, "");
  EXPECT_THAT(line, testing::MatchesRegex("\\{\"ts\":\"[^\"]*Z\",\"level\":\"warning\","
                                          "\"msg\":\"worker lost\",\"component\":"
                                          "\"sangam-server\",\"job\":7,\"worker\":\"w1\"\\}\n"));
}

TEST(LogTest, UnknownFormatSaysWhatIsExpected) {
  const absl::Status status = SetLogFormat("xml", "");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"xml\": expected text or json"));
}

TEST(LogTest, LongLinesAreCut) {
  const std::string line = Logged(LogLevel::kInfo, "x", "text=" + std::string(100000, 'y'));
  EXPECT_LT(line.size(), kMaxLogLineBytes + 100);
  EXPECT_THAT(line, HasSubstr("bytes more)\n"));
}

TEST(LogTest, HoldsBackWhatIsRepeated) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) Log(LogLevel::kInfo, "again", "and=again");
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5);
}

// The observer gets text in either format: it goes to the coordinator and to people.
TEST(LogTest, ObserverSeesText) {
  struct Keep : LogObserver {
    void OnLine(LogLevel, absl::string_view line) override { text = std::string(line); }
    std::string text;
  } keep;
  const ObserveLog observe(&keep);
  SetLogFormat(LogFormat::kJson, "sangam-worker");
  Logged(LogLevel::kInfo, "observed", "job=3");
  SetLogFormat(LogFormat::kText, "");
  EXPECT_EQ(keep.text, "observed job=3");
}

TEST(LogValueTest, QuotesWhatIsNotOneWord) {
  EXPECT_EQ(LogValue("w1"), "w1");
  EXPECT_EQ(LogValue(""), "\"\"");
  EXPECT_EQ(LogValue("no such\nfile"), "\"no such\\nfile\"");
  EXPECT_EQ(LogValue("a=b"), "\"a=b\"");
}

}  // namespace
}  // namespace sangam
