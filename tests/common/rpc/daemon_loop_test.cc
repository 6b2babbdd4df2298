#include "common/rpc/daemon_loop.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/exit_code.h"
#include "common/rpc/daemon_process.h"
#include "common/rpc/service_notifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class DaemonLoopTest : public ::testing::Test {
 protected:
  DaemonEnd Run() { return RunDaemonLoop(parts_, &signal_, &notifier_); }

  ShutdownSignal signal_;
  ServiceNotifier notifier_{{}};
  DaemonParts parts_;
};

TEST_F(DaemonLoopTest, ASignalEndsItInOrder) {
  kill(getpid(), SIGTERM);
  const DaemonEnd end = Run();
  EXPECT_TRUE(end.status.ok());
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_EQ(end.reason, "SIGTERM");
  EXPECT_EQ(static_cast<int>(end.exit_code()), 143);
}

TEST_F(DaemonLoopTest, ADaemonThatCannotGoOnEndsWithItsError) {
  parts_.stopped = [] { return absl::DataLossError("bad page"); };
  const DaemonEnd end = Run();
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(end.reason, "bad page");
  EXPECT_EQ(end.exit_code(), ExitCode::kDataLoss);
}

TEST_F(DaemonLoopTest, DrainsWhileTheMainThreadStaysAlive) {
  std::atomic<int> alive{0};
  std::atomic<int> drains{0};
  parts_.alive = [&alive] { ++alive; };
  parts_.drain_timeout = absl::Seconds(7);
  parts_.drain = [&](absl::Duration timeout) {
    EXPECT_EQ(timeout, absl::Seconds(7));
    ++drains;
    while (alive.load() < 3) absl::SleepFor(absl::Milliseconds(1));
  };
  kill(getpid(), SIGINT);
  const DaemonEnd end = Run();
  EXPECT_EQ(drains.load(), 1);
  EXPECT_EQ(static_cast<int>(end.exit_code()), 130);
}

TEST_F(DaemonLoopTest, ADrainThatFailsIsAnError) {
  std::atomic<bool> draining{false};
  parts_.drain = [&draining](absl::Duration) { draining = true; };
  parts_.stopped = [&draining] {
    return draining ? absl::AbortedError("fenced") : absl::OkStatus();
  };
  kill(getpid(), SIGTERM);
  EXPECT_EQ(Run().exit_code(), ExitCode::kFailure);
}

TEST_F(DaemonLoopTest, ReloadsAndDescribesItselfWhileItServes) {
  int reloads = 0;
  parts_.reload = [&reloads] { ++reloads; };
  parts_.describe = [&reloads] {
    kill(getpid(), SIGTERM);
    return absl::StrCat("first line\nreloads=", reloads);
  };
  // A flood counts once.
  for (int i = 0; i < 100; ++i) kill(getpid(), SIGHUP);
  absl::SleepFor(absl::Milliseconds(100));
  kill(getpid(), SIGUSR1);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Run().signal, SIGTERM);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("state first line\n"));
  EXPECT_THAT(log, HasSubstr("state reloads=1\n"));
  EXPECT_EQ(reloads, 1);
}

TEST_F(DaemonLoopTest, AnswersWhileItDrains) {
  std::atomic<bool> reloaded{false};
  std::atomic<bool> described{false};
  parts_.reload = [&reloaded] { reloaded = true; };
  parts_.describe = [&described] {
    described = true;
    return std::string();
  };
  parts_.drain = [&](absl::Duration) {
    kill(getpid(), SIGHUP);
    kill(getpid(), SIGUSR1);
    while (!reloaded || !described) absl::SleepFor(absl::Milliseconds(1));
  };
  kill(getpid(), SIGTERM);
  EXPECT_EQ(Run().signal, SIGTERM);
}

TEST(DaemonLoopDeathTest, ASecondSignalStopsADrainAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ShutdownSignal signal;
        ServiceNotifier notifier({});
        DaemonParts parts;
        parts.drain = [](absl::Duration) {
          kill(getpid(), SIGINT);
          absl::SleepFor(absl::Seconds(20));
        };
        kill(getpid(), SIGTERM);
        RunDaemonLoop(parts, &signal, &notifier);
      },
      ::testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace sangam
