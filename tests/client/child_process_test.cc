#include "client/child_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/script.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(20);

class ChildProcessTest : public ::testing::Test {
 protected:
  ChildProcessTest()
      : directory_(FreshDirectory("child_process_test")), log_(absl::StrCat(directory_, "/log")) {}

  std::unique_ptr<ChildProcess> Shell(const std::string& command) {
    auto child = ChildProcess::Start("/bin/sh", {"-c", command}, log_);
    EXPECT_TRUE(child.ok()) << child.status();
    return *std::move(child);
  }
  // Waits until the child has written `text`.
  bool AwaitLog(const std::string& text) const {
    const absl::Time until = absl::Now() + kLong;
    while (absl::Now() < until) {
      if (absl::StrContains(*ReadFile(log_, 1 << 20), text)) return true;
      absl::SleepFor(absl::Milliseconds(2));
    }
    return false;
  }

  const std::string directory_;
  const std::string log_;
};

// Whether a process has ended (perhaps without having been reaped by its new parent).
bool IsGone(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return true;
  const size_t name_end = line.rfind(") ");
  return name_end != std::string::npos && line[name_end + 2] == 'Z';
}

bool AwaitGone(pid_t pid) {
  const absl::Time until = absl::Now() + kLong;
  while (absl::Now() < until) {
    if (IsGone(pid)) return true;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return false;
}

TEST_F(ChildProcessTest, BothStreamsGoToTheLog) {
  const auto child = Shell("echo out; echo err >&2; cat");
  ASSERT_TRUE(child->WaitFor(kLong));
  EXPECT_TRUE(child->succeeded());
  EXPECT_EQ(child->ending(), "exited with status 0");
  EXPECT_EQ(*ReadFile(log_, 100), "out\nerr\n");
}

TEST_F(ChildProcessTest, TellsHowItEnded) {
  const auto failed = Shell("exit 3");
  ASSERT_TRUE(failed->WaitFor(kLong));
  EXPECT_FALSE(failed->succeeded());
  EXPECT_EQ(failed->ending(), "exited with status 3");
  const auto killed = Shell("kill -9 $$");
  ASSERT_TRUE(killed->WaitFor(kLong));
  EXPECT_EQ(killed->ending(), "was killed by signal 9 (Killed)");
  EXPECT_FALSE(killed->succeeded());
}

TEST_F(ChildProcessTest, WaitsNoLongerThanAsked) {
  const auto child = Shell("sleep 1000");
  EXPECT_FALSE(child->WaitFor(absl::Milliseconds(20)));
  EXPECT_TRUE(child->Running());
  EXPECT_EQ(child->ending(), "");
  child->Signal(SIGTERM);
  ASSERT_TRUE(child->WaitFor(kLong));
  EXPECT_THAT(child->ending(), HasSubstr("signal 15"));
  child->Signal(SIGTERM);
  child->Kill();
}

TEST_F(ChildProcessTest, ProgramsThatCannotStartAreErrors) {
  const auto missing = ChildProcess::Start(directory_ + "/none", {}, log_);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("cannot start "));
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/data", "x").ok());
  EXPECT_EQ(ChildProcess::Start(directory_ + "/data", {}, log_).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(
      std::string(ChildProcess::Start("/bin/sh", {}, directory_ + "/no/log").status().message()),
      HasSubstr("/no/log"));
}

TEST_F(ChildProcessTest, KillReachesTheWholeGroup) {
  const auto child = Shell("trap '' TERM; sleep 1000 & echo \"pid $!;\"; wait");
  ASSERT_TRUE(AwaitLog(";"));
  pid_t grandchild = 0;
  const std::string log = *ReadFile(log_, 100);
  ASSERT_TRUE(absl::SimpleAtoi(log.substr(4, log.find(';') - 4), &grandchild));
  EXPECT_FALSE(IsGone(grandchild));
  child->Kill();
  EXPECT_FALSE(child->Running());
  EXPECT_TRUE(AwaitGone(grandchild));
}

TEST_F(ChildProcessTest, WhatItLeavesBehindEndsWithIt) {
  const auto child = Shell("sleep 1000 & echo \"pid $!;\"");
  ASSERT_TRUE(child->WaitFor(kLong));
  EXPECT_TRUE(child->succeeded());
  pid_t grandchild = 0;
  const std::string log = *ReadFile(log_, 100);
  ASSERT_TRUE(absl::SimpleAtoi(log.substr(4, log.find(';') - 4), &grandchild));
  EXPECT_TRUE(AwaitGone(grandchild));
}

TEST_F(ChildProcessTest, DoesNotOutliveItsObject) {
  pid_t pid = 0;
  {
    const auto child = Shell("sleep 1000");
    pid = child->pid();
    EXPECT_FALSE(IsGone(pid));
  }
  EXPECT_TRUE(IsGone(pid));
}

TEST_F(ChildProcessTest, DoesNotOutliveThisProcess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto child = ChildProcess::Start("/bin/sh", {"-c", "sleep 1000"}, log_);
    const pid_t pid = child.ok() ? (*child)->pid() : 0;
    const ssize_t written = write(ends[1], &pid, sizeof(pid));
    // Neither destructors nor anything else of ours runs when a process is killed.
    _exit(written == sizeof(pid) ? 0 : 1);
  }
  pid_t pid = 0;
  ASSERT_EQ(read(ends[0], &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  ASSERT_GT(pid, 0);
  int status = 0;
  waitpid(parent, &status, 0);
  EXPECT_TRUE(AwaitGone(pid));
  close(ends[0]);
  close(ends[1]);
}

TEST_F(ChildProcessTest, StartsWithSignalsAtTheirDefaults) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGINT, SIG_IGN);
  const auto child = Shell("kill -INT $$; echo alive");
  ASSERT_TRUE(child->WaitFor(kLong));
  EXPECT_THAT(child->ending(), HasSubstr("signal 2"));
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
}

TEST_F(ChildProcessTest, ACtrlCAtTheTerminalDoesNotReachIt) {
  const auto child = Shell("sleep 1000");
  EXPECT_NE(getpgid(child->pid()), getpgid(0));
}

}  // namespace
}  // namespace sangam
