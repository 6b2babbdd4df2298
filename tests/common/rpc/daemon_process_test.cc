#include "common/rpc/daemon_process.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(DaemonProcessTest, DefaultNameEndsWithTheProcessIdAndIsAName) {
  const std::string name = DefaultDaemonName();
  EXPECT_TRUE(absl::EndsWith(name, absl::StrCat("-", getpid()))) << name;
  EXPECT_LE(name.size(), 128u);
  EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "-._"),
            std::string::npos)
      << name;
}

TEST(DaemonProcessTest, IncarnationsGrow) {
  const uint64_t first = NewIncarnation();
  EXPECT_GT(first, 0u);
  EXPECT_GE(NewIncarnation(), first);
}

TEST(DaemonProcessTest, ReadyFileIsReplacedWhole) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/ready");
  ASSERT_TRUE(WriteReadyFile(path, "127.0.0.1:7070").ok());
  EXPECT_EQ(ReadAll(path), "127.0.0.1:7070\n");
  ASSERT_TRUE(WriteReadyFile(path, "x").ok());
  EXPECT_EQ(ReadAll(path), "x\n");
}

TEST(DaemonProcessTest, ReadyFileThatCannotBeWrittenIsNamed) {
  const absl::Status status = WriteReadyFile("/no/such/folder/ready", "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("/no/such/folder/ready"), absl::string_view::npos) << status;
  // A folder is in the way; no temporary file stays behind.
  const std::string folder = absl::StrCat(::testing::TempDir(), "/folder");
  mkdir(folder.c_str(), 0755);
  EXPECT_FALSE(WriteReadyFile(folder, "x").ok());
  EXPECT_NE(access(absl::StrCat(folder, ".", getpid(), ".tmp").c_str(), F_OK), 0);
}

TEST(DaemonProcessTest, ASignalIsARequest) {
  for (const int number : {SIGTERM, SIGINT}) {
    ShutdownSignal shutdown;
    EXPECT_FALSE(shutdown.requested());
    EXPECT_FALSE(shutdown.WaitFor(absl::Milliseconds(1)));
    kill(getpid(), number);
    EXPECT_TRUE(shutdown.WaitFor(absl::Seconds(20)));
    EXPECT_TRUE(shutdown.requested());
    EXPECT_EQ(shutdown.name(), number == SIGTERM ? "SIGTERM" : "SIGINT");
  }
}

TEST(DaemonProcessTest, OtherSignalsAskForSomething) {
  ShutdownSignal shutdown;
  EXPECT_FALSE(shutdown.TakeReload());
  kill(getpid(), SIGHUP);
  // Wakes the waiter, but is no end.
  EXPECT_FALSE(shutdown.WaitFor(absl::Seconds(20)));
  EXPECT_TRUE(shutdown.TakeReload());
  EXPECT_FALSE(shutdown.TakeReload());
  kill(getpid(), SIGUSR1);
  shutdown.WaitForMore(absl::Seconds(20));
  EXPECT_TRUE(shutdown.TakeDescribe());
  EXPECT_FALSE(shutdown.TakeDescribe());
  EXPECT_FALSE(shutdown.requested());
  EXPECT_EQ(shutdown.number(), 0);
}

TEST(DaemonProcessDeathTest, ASecondSignalEndsTheProcessAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ShutdownSignal shutdown;
        kill(getpid(), SIGINT);
        shutdown.WaitFor(absl::Seconds(20));
        kill(getpid(), SIGTERM);
        sleep(20);
        std::exit(0);
      },
      ::testing::ExitedWithCode(128 + SIGTERM), "");
}

}  // namespace
}  // namespace sangam
