#include "common/base/job_log.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(JobLogTest, FindsTheJobOfALine) {
  EXPECT_EQ(JobOfLine("job prepared job=12 generation=1"), 12u);
  EXPECT_EQ(JobOfLine("stream closed worker=w job=3"), 3u);
  for (const char* line :
       {"worker ready name=w1", "jobs oldjob=3", "x job=w1", "x job=", "job=3"}) {
    EXPECT_FALSE(JobOfLine(line).has_value()) << line;
  }
}

TEST(JobLogTest, KeepsTheLinesOfAJobTogether) {
  JobLog log({});
  ObserveLog observe(&log);
  LogInfo("one", "job=%d", 7);
  LogInfo("no job", "name=%s", "w");
  LogWarning("two", "job=%d", 8);
  LogError("three", "job=%d bytes=\x01\xff", 7);
  LogUnobserved(LogLevel::kInfo, "unseen", "job=7");
  const JobLog::Batch first = log.Take(10);
  EXPECT_EQ(first.job, 7u);
  ASSERT_EQ(first.lines.size(), 2u);
  EXPECT_EQ(first.lines[0].text, "one job=7");
  EXPECT_EQ(first.lines[1].text, "three job=7 bytes=??");
  EXPECT_EQ(first.lines[1].level, LogLevel::kError);
  EXPECT_FALSE(log.empty());
  EXPECT_EQ(log.Take(10).lines.at(0).text, "two job=8");
  EXPECT_TRUE(log.empty());
  EXPECT_TRUE(log.Take(10).lines.empty());
}

TEST(JobLogTest, IsBoundedAndCountsWhatIsLost) {
  JobLog::Options options;
  options.max_lines = 3;
  options.max_line_bytes = 12;
  JobLog log(options);
  for (int i = 0; i < 10; ++i) log.OnLine(LogLevel::kInfo, absl::StrCat("x job=1 number=", i));
  JobLog::Batch batch = log.Take(2);
  ASSERT_EQ(batch.lines.size(), 3u);
  EXPECT_EQ(batch.lines[0].text, "x job=1 numb");
  EXPECT_EQ(batch.lines[2].text, "log lines dropped count=7");
  EXPECT_EQ(log.Take(2).lines.size(), 1u);
}

}  // namespace
}  // namespace sangam
