#include "common/admin/daemon_admin.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/admin/admin_flags.h"
#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/metrics/metric_page.h"
#include "common/rpc/host_port.h"
#include "common/rpc/process_credentials.h"
#include "common/security/security_flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/raw_http.h"
#include "tests/testing/test_certificates.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

DaemonAdmin::Facts SomeFacts() {
  return {"worker", "w-1", 1764529697123456789, {{"listen", "127.0.0.1:0"}}};
}

AdminFlags ListenOn(const std::string& address) {
  AdminFlags flags;
  flags.admin_listen = address;
  return flags;
}

class Source : public AdminSource {
 public:
  void AddMetrics(MetricPage* page) const override { page->Gauge("sangam_jobs", "Jobs", 3); }
  void AddStatus(nlohmann::json* status) const override { (*status)["jobs"] = "\xff"; }
};

TEST(DaemonAdminTest, AnswersFromTheStartToTheEnd) {
  DaemonAdmin admin(SomeFacts());
  ASSERT_TRUE(admin.Serve(ListenOn("127.0.0.1:0")).ok());
  const int port = ParseHostPort(admin.address())->port;
  EXPECT_EQ(Ask(port, "GET /livez").status, 200);
  const HttpAnswer starting = Ask(port, "GET /readyz");
  EXPECT_EQ(starting.status, 503);
  EXPECT_EQ(starting.body, "starting\n");
  admin.readiness()->SetReady();
  EXPECT_EQ(Ask(port, "GET /readyz").status, 200);
  EXPECT_THAT(Ask(port, "GET /metrics").body, HasSubstr("sangam_ready 1\n"));
  const Source source;
  {
    const ShowSource show(&admin, &source);
    EXPECT_THAT(Ask(port, "GET /metrics").body, HasSubstr("sangam_jobs 3\n"));
    const auto status = nlohmann::json::parse(Ask(port, "GET /statusz").body);
    EXPECT_EQ(status["role"], "worker");
    EXPECT_EQ(status["name"], "w-1");
    EXPECT_EQ(status["incarnation"], "1764529697123456789");
    EXPECT_EQ(status["flags"]["listen"], "127.0.0.1:0");
    EXPECT_EQ(status["ready"], true);
    EXPECT_EQ(status["jobs"], "\xEF\xBF\xBD");
    EXPECT_GE(status["uptime_seconds"], 0.0);
  }
  EXPECT_THAT(Ask(port, "GET /metrics").body, testing::Not(HasSubstr("sangam_jobs")));
  admin.watchdog()->Add("main", -absl::Seconds(1));
  EXPECT_EQ(Ask(port, "GET /livez").status, 503);
}

TEST(DaemonAdminTest, ListensOnlyWhenItIsAskedTo) {
  DaemonAdmin admin(SomeFacts());
  EXPECT_TRUE(admin.Serve(AdminFlags()).ok());
  EXPECT_EQ(admin.address(), "");
}

TEST(DaemonAdminTest, OthersReachItOnlyWhenThatIsSafe) {
  DaemonAdmin admin(SomeFacts());
  for (const char* address : {"0.0.0.0:0", ":0", "[::]:0"}) {
    const absl::Status status = admin.Serve(ListenOn(address));
    EXPECT_EQ(DaemonExitCodeFor(status), ExitCode::kBadConfiguration) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--admin_listen"));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(admin.Serve(ListenOn("nonsense"))));
}

class OpenDoors final : public LogObserver {
 public:
  void OnLine(LogLevel level, absl::string_view line) override {
    if (level != LogLevel::kWarning || !absl::StrContains(line, "open to everybody")) return;
    MutexLock lock(&mutex_);
    lines_.emplace_back(line);
  }
  std::vector<std::string> lines() const {
    MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

// TLS of the process is not TLS of its admin port.
TEST(DaemonAdminTest, ADoorThatIsOpenInSpiteOfTlsIsSaid) {
  TestCertificates certificates;
  SecurityFlags flags;
  flags.tls = certificates.Issue("worker");
  auto credentials = ProcessCredentials::ForDaemon(flags);
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  SetProcessCredentials(*credentials);
  OpenDoors doors;
  const ObserveLog observe(&doors);
  {
    DaemonAdmin inside(SomeFacts());
    ASSERT_TRUE(inside.Serve(ListenOn("127.0.0.1:0")).ok());
    DaemonAdmin outside(SomeFacts());
    ASSERT_TRUE(outside.Serve(ListenOn("0.0.0.0:0")).ok());
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (doors.lines().empty() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
    ASSERT_EQ(doors.lines().size(), 1u);
    EXPECT_THAT(doors.lines()[0], HasSubstr("address=0.0.0.0:"));
    EXPECT_THAT(doors.lines()[0], HasSubstr("neither TLS nor credentials"));
  }
  SetProcessCredentials(std::make_shared<ProcessCredentials>());
}

}  // namespace
}  // namespace sangam
