#include "common/rpc/bind_rule.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

TEST(BindRuleTest, WithoutTlsThisMachineAlone) {
  for (const char* host : {"127.0.0.1", "127.9.8.7", "::1", "localhost"}) {
    EXPECT_TRUE(CheckBind(host, false, false).ok()) << host;
  }
  for (const char* host : {"", "0.0.0.0", "::", "10.0.0.5", "192.168.1.1", "node-7", "fe80::1",
                           "127.0.0.1.example.org", "localhost.example.org"}) {
    const absl::Status refused = CheckBind(host, false, false);
    EXPECT_EQ(DaemonExitCodeFor(refused), ExitCode::kBadConfiguration) << host;
    for (const char* fix : {"--tls_cert", "127.0.0.1", "--insecure_allow_remote"}) {
      EXPECT_THAT(std::string(refused.message()), HasSubstr(fix)) << host;
    }
    EXPECT_TRUE(CheckBind(host, true, false).ok()) << host;
    EXPECT_TRUE(CheckBind(host, false, true).ok()) << host;
  }
}

class CountWarnings final : public LogObserver {
 public:
  void OnLine(LogLevel level, absl::string_view line) override {
    MutexLock lock(&mutex_);
    if (level == LogLevel::kWarning && absl::StrContains(line, "open to everybody")) ++count_;
  }
  int count() const {
    MutexLock lock(&mutex_);
    return count_;
  }

 private:
  mutable Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(BindRuleTest, AnOpenDoorIsSaidAgainAndAgain) {
  CountWarnings warnings;
  const ObserveLog observe(&warnings);
  {
    OpenDoorWarning::Options options;
    options.interval = absl::Milliseconds(10);
    const OpenDoorWarning door("0.0.0.0:7070", options);
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (warnings.count() < 3 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
  }
  const int at_end = warnings.count();
  EXPECT_GE(at_end, 3);
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(warnings.count(), at_end);
}

}  // namespace
}  // namespace sangam
