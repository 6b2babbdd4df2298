#include "server/core/log_store.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"

namespace sangam {
namespace {

v1::LogLine Line(const std::string& daemon, const std::string& text) {
  v1::LogLine line;
  line.set_daemon(daemon);
  line.set_text(text);
  return line;
}

// "5:text 6:text", with "(4)" in front of the first for four dropped ones.
std::string Text(const LogStore::Lines& found) {
  std::string text;
  for (const v1::LogLine& line : found.lines) {
    if (line.dropped() != 0) absl::StrAppend(&text, "(", line.dropped(), ")");
    absl::StrAppend(&text, line.revision(), ":", line.text(), " ");
  }
  return text;
}

TEST(LogStoreTest, CountsWithinAJobAndGoesOnAnywhere) {
  LogStore store({});
  store.Add(1, Line("worker w1", "a"));
  store.Add(2, Line("worker w1", "b"));
  store.Add(1, Line("coordinator", "c"));
  EXPECT_EQ(Text(store.After(1, 0, "", 10)), "1:a 2:c ");
  EXPECT_EQ(Text(store.After(1, 1, "", 10)), "2:c ");
  EXPECT_EQ(Text(store.After(1, 0, "", 1)), "1:a ");
  EXPECT_EQ(Text(store.After(3, 0, "", 10)), "");
  EXPECT_EQ(store.After(3, 7, "", 10).revision, 7u);
}

TEST(LogStoreTest, ADaemonGoesByItsNameOrWithItsRole) {
  LogStore store({});
  store.Add(1, Line("worker w1", "a"));
  store.Add(1, Line("worker ww1", "b"));
  store.Add(1, Line("server w1", "c"));
  EXPECT_EQ(Text(store.After(1, 0, "w1", 10)), "1:a 3:c ");
  EXPECT_EQ(Text(store.After(1, 0, "server w1", 10)), "3:c ");
  EXPECT_EQ(Text(store.After(1, 0, "none", 10)), "");
  // What was passed over is not looked at again.
  EXPECT_EQ(store.After(1, 0, "none", 10).revision, 3u);
}

TEST(LogStoreTest, LinesAfterARestartAreNewToWhoSawMoreBefore) {
  LogStore store({});
  store.BeginAfter(100);
  store.Add(1, Line("w", "a"));
  store.Add(1, Line("w", "b"));
  // Nothing was dropped: the lines between are of another process.
  EXPECT_EQ(Text(store.After(1, 0, "", 10)), "101:a 102:b ");
  EXPECT_EQ(Text(store.After(1, 14, "", 10)), "101:a 102:b ");
  EXPECT_EQ(Text(store.After(1, 101, "", 10)), "102:b ");
  EXPECT_EQ(Text(store.After(1, 500, "", 10)), "101:a 102:b ");
}

TEST(LogStoreTest, IsBounded) {
  LogStore::Options options;
  options.max_jobs = 2;
  options.max_lines = 3;
  options.max_bytes = 20;
  options.max_line_bytes = 12;
  LogStore store(options);
  for (int i = 1; i <= 5; ++i) store.Add(1, Line("w", "x"));
  EXPECT_EQ(Text(store.After(1, 0, "", 10)), "(2)3:x 4:x 5:x ");
  EXPECT_EQ(Text(store.After(1, 2, "", 10)), "3:x 4:x 5:x ");
  store.Add(1, Line("w", "123456789012345"));
  EXPECT_EQ(Text(store.After(1, 3, "", 10)), "4:x 5:x 6:123456789012... ");
  store.Add(1, Line("w", "1234567890"));
  EXPECT_EQ(Text(store.After(1, 5, "", 10)), "(1)7:1234567890 ");
  store.Add(2, Line("w", "y"));
  store.Add(3, Line("w", "z"));
  EXPECT_EQ(store.size(), 2u);
  EXPECT_EQ(Text(store.After(1, 0, "", 10)), "");
  store.Forget(2);
  EXPECT_EQ(store.size(), 1u);
}

TEST(LogStoreTest, TheJobThatWasQuietForLongestMakesRoom) {
  LogStore::Options options;
  options.max_jobs = 2;
  LogStore store(options);
  store.Add(1, Line("w", "old job"));
  store.Add(2, Line("w", "young job"));
  store.Add(1, Line("w", "still there"));
  store.Add(3, Line("w", "youngest"));
  EXPECT_EQ(Text(store.After(1, 0, "", 10)), "1:old job 2:still there ");
  EXPECT_EQ(Text(store.After(2, 0, "", 10)), "");
}

TEST(LogStoreTest, AJobThatComesBackGoesOnBehindItsOldNumbers) {
  LogStore::Options options;
  options.max_jobs = 1;
  LogStore store(options);
  for (int i = 1; i <= 3; ++i) store.Add(1, Line("w", "x"));
  store.Add(2, Line("w", "y"));
  store.Add(1, Line("w", "back"));
  const LogStore::Lines found = store.After(1, 3, "", 10);
  ASSERT_EQ(found.lines.size(), 1u);
  EXPECT_GT(found.lines[0].revision(), 3u);
  EXPECT_EQ(found.lines[0].dropped(), 0u);
}

// Who followed the log of an earlier coordinator goes on with the next one's lines.
TEST(LogStoreTest, GoesOnBehindTheNumbersOfAnEarlierStore) {
  LogStore store({});
  store.BeginAfter(1000);
  store.Add(1, Line("w", "a"));
  store.Add(1, Line("w", "b"));
  EXPECT_EQ(Text(store.After(1, 0, "", 10)), "1001:a 1002:b ");
  EXPECT_EQ(Text(store.After(1, 7, "", 10)), "1001:a 1002:b ");
  EXPECT_EQ(Text(store.After(1, 1001, "", 10)), "1002:b ");
}

}  // namespace
}  // namespace sangam
