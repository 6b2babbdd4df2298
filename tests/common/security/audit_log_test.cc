#include "common/security/audit_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/fake_clock.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

std::string FilePath(const std::string& name) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  std::remove(path.c_str());
  return path;
}

std::vector<nlohmann::json> Lines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::json::parse(line, nullptr, false));
    EXPECT_FALSE(lines.back().is_discarded()) << line;
  }
  return lines;
}

TEST(AuditLogTest, WritesOneLineOfJsonForEachEvent) {
  const std::string path = FilePath("audit-lines");
  FakeClock clock;
  auto log = AuditLog::Open(path, &clock);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Write({"client/alice", "ipv4:127.0.0.1:1", "SubmitJob", "job 1", absl::OkStatus()});
  (*log)->Write({"client/bob", "ipv4:127.0.0.1:2", "CancelJob", "job \"x\"\n\x1b[31m\xff",
                 absl::NotFoundError("no\tsuch \\ job")});
  log->reset();
  const auto lines = Lines(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["who"], "client/alice");
  EXPECT_EQ(lines[0]["result"], "OK");
  EXPECT_EQ(lines[0].count("message"), 0u);
  EXPECT_EQ(lines[1]["peer"], "ipv4:127.0.0.1:2");
  EXPECT_EQ(lines[1]["method"], "CancelJob");
  EXPECT_EQ(lines[1]["result"], "NOT_FOUND");
  EXPECT_EQ(lines[1]["message"], "no\tsuch \\ job");
  EXPECT_EQ(lines[1]["resource"], "job \"x\"\n\x1b[31m\u00ff");
  struct stat facts = {};
  ASSERT_EQ(stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST(AuditLogTest, AFileThatWasMovedAwayIsBegunAnew) {
  const std::string path = FilePath("audit-moved");
  const std::string old = FilePath("audit-moved.1");
  FakeClock clock;
  auto log = AuditLog::Open(path, &clock);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Write({"client/alice", "", "SubmitJob", "job 1", absl::OkStatus()});
  EXPECT_EQ((*log)->Reopen().value(), "");
  ASSERT_EQ(std::rename(path.c_str(), old.c_str()), 0);
  (*log)->Write({"client/alice", "", "SubmitJob", "job 2", absl::OkStatus()});
  EXPECT_EQ((*log)->Reopen().value(), absl::StrCat("\"", path, "\" opened anew"));
  (*log)->Write({"client/alice", "", "SubmitJob", "job 3", absl::OkStatus()});
  EXPECT_EQ(Lines(old).size(), 2u);
  ASSERT_EQ(Lines(path).size(), 1u);
  EXPECT_EQ(Lines(path)[0]["resource"], "job 3");
  // Where there can be no new file the old one goes on.
  std::remove(path.c_str());
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  EXPECT_THAT(std::string((*log)->Reopen().status().message()), HasSubstr(path));
  rmdir(path.c_str());
  (*log)->Write({"client/alice", "", "SubmitJob", "job 4", absl::OkStatus()});
  EXPECT_EQ((*AuditLog::Open("", &clock))->Reopen().value(), "");
}

TEST(AuditLogTest, RefusalsCannotFillTheDisk) {
  const std::string path = FilePath("audit-refusals");
  FakeClock clock;
  auto log = AuditLog::Open(path, &clock);
  ASSERT_TRUE(log.ok()) << log.status();
  const AuditEvent event = {"unknown", "", std::string(100'000, 'x'), "",
                            absl::UnauthenticatedError(std::string(100'000, 'y'))};
  for (int i = 0; i < 10'000; ++i) (*log)->WriteRefusal(event);
  EXPECT_EQ(Lines(path).size(), 100u);
  clock.Advance(absl::Seconds(1));
  for (int i = 0; i < 1000; ++i) (*log)->WriteRefusal(event);
  const auto lines = Lines(path);
  ASSERT_EQ(lines.size(), 110u);
  EXPECT_EQ(lines[100]["left_out"], 9900);
  EXPECT_LT(lines[0].dump().size(), 3000u);
}

TEST(AuditLogTest, SaysWhyItCannotBeOpened) {
  FakeClock clock;
  const auto log = AuditLog::Open("/no/such/folder/audit", &clock);
  EXPECT_EQ(log.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(log.status().message()), HasSubstr("/no/such/folder"));
}

}  // namespace
}  // namespace sangam
