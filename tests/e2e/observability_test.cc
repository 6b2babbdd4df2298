// Looking at real daemons while they run a job: probes, metrics, status, health, and strangers at
// the admin port.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/cluster.h"
#include "tests/testing/raw_http.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kDeadline = absl::Seconds(60);

class ObservabilityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = FreshFolder("observability");
    const std::string data = FreshFolder("observability-data");
    WriteTestData(data, 2000, 70);
    cluster_ = std::make_unique<Cluster>(Cluster::Options{folder_, data, "2s"});
    cluster_->StartCoordinator("all", {"--admin_listen=127.0.0.1:0", "--log_format=json",
                                       absl::StrCat("--state_dir=", folder_, "/state")});
    cluster_->StartWorker("w1", {"--admin_listen=127.0.0.1:0"});
  }

  // Where the daemon's admin server is, from its log.
  int AdminPort(const std::string& daemon) {
    const std::string log = cluster_->daemon(daemon).Output();
    const std::string host = "127.0.0.1:";
    const size_t line = log.find("admin server ready");
    const size_t at = log.find(host, line);
    int port = 0;
    size_t end = at + host.size();
    while (end < log.size() && absl::ascii_isdigit(static_cast<unsigned char>(log[end]))) ++end;
    EXPECT_TRUE(line != std::string::npos && at != std::string::npos) << log;
    EXPECT_TRUE(absl::SimpleAtoi(log.substr(at + host.size(), end - at - host.size()), &port));
    return port;
  }
  std::string Metrics(const std::string& daemon) {
    return Ask(AdminPort(daemon), "GET /metrics").body;
  }
  // Waits until the daemon's metrics contain `text`.
  std::string AwaitMetric(const std::string& daemon, const std::string& text) {
    std::string metrics;
    for (int i = 0; i < 200; ++i) {
      metrics = Metrics(daemon);
      if (metrics.find(text) != std::string::npos) break;
      absl::SleepFor(absl::Milliseconds(100));
    }
    EXPECT_THAT(metrics, HasSubstr(text));
    return metrics;
  }
  // What Prometheus' own tool says of it, where there is one.
  void CheckWithPromtool(const std::string& metrics) {
    const std::string path = absl::StrCat(folder_, "/metrics.txt");
    WriteFile(path, metrics);
    const Finished found = RunCommand({"/bin/sh", "-c", "command -v promtool"}, kDeadline);
    if (found.exit_code != 0) return;
    const Finished checked =
        RunCommand({"/bin/sh", "-c", absl::StrCat("promtool check metrics < ", path)}, kDeadline);
    EXPECT_EQ(checked.exit_code, 0) << checked.output << metrics;
  }

  std::string folder_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(ObservabilityTest, ADaemonShowsItselfWhileItWorks) {
  const int port = AdminPort("coordinator");
  for (const char* daemon : {"coordinator", "w1"}) {
    EXPECT_EQ(Ask(AdminPort(daemon), "GET /livez").status, 200);
    EXPECT_EQ(Ask(AdminPort(daemon), "GET /readyz").body, "ok\n");
  }
  TestJob job;
  job.epochs = 100000;
  cluster_->Submit(JobText(job));
  AwaitMetric("coordinator", "sangam_train_loss{job=\"1\"}");
  AwaitMetric("w1", "sangam_worker_step{job=\"1\"}");
  const std::string server = Metrics("coordinator");
  for (const char* text :
       {"sangam_ready 1\n", "sangam_workers{state=\"busy\"} 1\n",
        "sangam_jobs{state=\"running\"} 1\n", "sangam_pages{job=\"1\"}",
        "sangam_job_stalled{job=\"1\"} 0\n",
        "sangam_rpc_requests_total{method=\"sangam.v1.ClusterService/Report\",code=\"OK\"}"}) {
    EXPECT_THAT(server, HasSubstr(text));
  }
  EXPECT_THAT(server, Not(HasSubstr("sangam_push_bytes_total 0\n")));
  EXPECT_THAT(server, Not(HasSubstr("sangam_pull_bytes_total 0\n")));
  EXPECT_THAT(server, Not(HasSubstr("sangam_aggregation_rounds_total 0\n")));
  const std::string worker = Metrics("w1");
  EXPECT_THAT(worker, Not(HasSubstr("sangam_step_phase_seconds_total{phase=\"forward\"} 0\n")));
  CheckWithPromtool(server);
  CheckWithPromtool(worker);
  const auto status = nlohmann::json::parse(Ask(port, "GET /statusz").body);
  EXPECT_EQ(status["role"], "coordinator");
  EXPECT_EQ(status["jobs"][0]["state"], "running");
  EXPECT_EQ(status["peers"].size(), 2u);
  EXPECT_EQ(status["flags"]["log_format"], "json");
  EXPECT_TRUE(nlohmann::json::accept(Ask(AdminPort("w1"), "GET /statusz").body));
  // Series end with the job.
  EXPECT_EQ(cluster_->Client({"cancel", "1"}, kDeadline).exit_code, 0);
  EXPECT_THAT(AwaitMetric("coordinator", "sangam_jobs{state=\"cancelled\"} 1\n"),
              Not(HasSubstr("sangam_train_step{job=\"1\"}")));
  // The job's log is text in both formats, and the coordinator's own is JSON.
  const Finished logs = cluster_->Client({"logs", "1"}, kDeadline);
  EXPECT_EQ(logs.exit_code, 0) << logs.output;
  EXPECT_THAT(logs.output, HasSubstr("job=1"));
  for (const absl::string_view line :
       absl::StrSplit(cluster_->daemon("coordinator").Output(), '\n', absl::SkipEmpty())) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
}

TEST_F(ObservabilityTest, AWorkerIsNotReadyBeforeItIsRegistered) {
  // Nobody answers at that address.
  const auto worker = Subprocess::Start({WorkerBinary(), "--coordinator=127.0.0.1:1", "--name=w2",
                                         "--start_deadline=60s", "--admin_listen=127.0.0.1:0"},
                                        absl::StrCat(folder_, "/w2.log"));
  ASSERT_TRUE(worker.ok()) << worker.status();
  std::string log;
  for (int i = 0; i < 300 && log.find("admin server ready") == std::string::npos; ++i) {
    absl::SleepFor(absl::Milliseconds(100));
    log = (*worker)->Output();
  }
  int port = 0;
  const size_t at = log.find("address=127.0.0.1:");
  ASSERT_NE(at, std::string::npos) << log;
  ASSERT_TRUE(absl::SimpleAtoi(log.substr(at + 18, log.find('\n', at) - at - 18), &port)) << log;
  const HttpAnswer ready = Ask(port, "GET /readyz");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(ready.body, "starting\n");
  EXPECT_EQ(Ask(port, "GET /livez").status, 200);
}

TEST_F(ObservabilityTest, StrangersDoNotDisturb) {
  const int port = AdminPort("coordinator");
  std::vector<std::unique_ptr<RawConnection>> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(std::make_unique<RawConnection>(port));
    if (i % 3 == 1) strangers.back()->Write(std::string(i, '\xff'));
  }
  HttpAnswer answer;
  for (int i = 0; i < 150 && answer.status != 200; ++i) {
    answer = Ask(port, "GET /livez");
    if (answer.status != 200) absl::SleepFor(absl::Milliseconds(200));
  }
  EXPECT_EQ(answer.status, 200);
  // Bounded: files of the strangers are closed.
  const std::string metrics = Metrics("coordinator");
  const size_t at = metrics.find("\nprocess_open_fds ");
  double files = 1e9;
  ASSERT_TRUE(
      absl::SimpleAtod(metrics.substr(at + 18, metrics.find('\n', at + 1) - at - 18), &files));
  EXPECT_LT(files, 250);
}

TEST_F(ObservabilityTest, RefusalsSayWhyToPrograms) {
  const std::string path = absl::StrCat(folder_, "/bad.textproto");
  TestJob job;
  job.batch = 0;
  job.micro_batches = 3;
  WriteFile(path, JobText(job));
  const Finished refused = cluster_->Client({"submit", path, "--output=json"}, kDeadline);
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  const auto error = nlohmann::json::parse(refused.output, nullptr, false)["error"];
  EXPECT_EQ(error["code"], "INVALID_ARGUMENT") << refused.output;
  EXPECT_EQ(error["reason"], "INVALID_JOB");
  EXPECT_THAT(error["field_violations"][0]["field"].get<std::string>(), HasSubstr("batch"));
}

TEST(AdminListenTest, BeyondThisMachineOnlyWhenThatIsSafe) {
  const Finished refused =
      RunCommand({ServerBinary(), "--listen=127.0.0.1:0", "--admin_listen=0.0.0.0:0"}, kDeadline);
  EXPECT_EQ(refused.exit_code, 78) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("--admin_listen"));
}

}  // namespace
}  // namespace sangam::testing
