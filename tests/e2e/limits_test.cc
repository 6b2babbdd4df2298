// Floods against real daemons: memory stays bounded, everybody else goes on, and a job that trains
// meanwhile has the same bits.
#include <grpcpp/client_context.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/rpc/channel.h"
#include "gtest/gtest.h"
#include "proto/job_service.grpc.pb.h"
#include "tests/e2e/cluster.h"
#include "tests/server/core/control_fixtures.h"
#include "tests/testing/raw_http2.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(240);
constexpr char kPushPull[] = "/sangam.v1.ParameterService/PushPull";
constexpr char kReport[] = "/sangam.v1.ClusterService/Report";
// A job of so many lasts longer than a flood.
constexpr int kEpochs = 4000;
constexpr uint64_t kMiB = uint64_t{1} << 20;

int PortOf(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
  return port;
}

class LimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = FreshFolder(absl::StrCat("limits-", name));
    data_ = FreshFolder(absl::StrCat("limits-data-", name));
    WriteTestData(data_, 200, 20);
    cluster_ = std::make_unique<Cluster>(Cluster::Options{folder_, data_, "5s"});
  }

  RawHttp2 Speaking() {
    RawHttp2 client(PortOf(cluster_->address()));
    client.SendPreface();
    for (int i = 0; i < 40 && client.is_open() && !client.has_settings(); ++i) {
      client.Pump(absl::Milliseconds(50));
    }
    return client;
  }

  pid_t server() { return cluster_->daemon("coordinator").pid(); }

  bool IsRunning(const std::string& name) {
    return absl::StrContains(
        cluster_->Client({"describe", name, "--output=json"}, kDeadline).output,
        "\"state\": \"RUNNING\"");
  }

  // `meanwhile` is called while the job runs, and ends before it. Returns the weights.
  std::string Train(const std::string& name, const std::function<void()>& meanwhile) {
    TestJob job;
    job.name = name;
    job.epochs = kEpochs;
    job.evaluation = absl::StrCat("every_epochs: ", kEpochs);
    cluster_->Submit(JobText(job));
    const auto running = cluster_->AwaitDescription(name, "\"RUNNING\"", absl::Seconds(60));
    EXPECT_TRUE(running.ok()) << running.status();
    const absl::Time begin = absl::Now();
    meanwhile();
    EXPECT_TRUE(IsRunning(name)) << "it ended within " << absl::Now() - begin;
    const auto watched = cluster_->Client({"watch", name}, kDeadline);
    EXPECT_EQ(watched.exit_code, 0) << watched.output;
    std::printf("job \"%s\" ran for %s\n", name.c_str(),
                absl::FormatDuration(absl::Now() - begin).c_str());
    const std::string path = absl::StrCat(folder_, "/", name, ".safetensors");
    const auto exported =
        cluster_->Client({"export", name, absl::StrCat("--out=", path)}, kDeadline);
    EXPECT_EQ(exported.exit_code, 0) << exported.output;
    const auto weights = ReadFile(path);
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.ok() ? *weights : "";
  }

  std::unique_ptr<v1::JobService::Stub> Stub() {
    return v1::JobService::NewStub(*MakeControlChannel(cluster_->address()));
  }

  std::string folder_;
  std::string data_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(LimitsTest, APushFloodIsBoundedAndDisturbsNoJob) {
  cluster_->StartCoordinator("all", {"--memory_budget=64MiB", "--stalled_call_timeout=2s"});
  cluster_->StartWorker("w1");
  const std::string alone = Train("alone", [] {});
  const uint64_t before = ResidentBytes(server());
  const std::string flooded = Train("flooded", [this] {
    // 48 messages of 8 MiB at once, none of which ever ends.
    std::vector<RawHttp2> flood;
    for (int i = 0; i < 48; ++i) {
      flood.push_back(Speaking());
      flood.back().OpenCall(1, i % 2 == 0 ? kPushPull : kReport);
      flood.back().BeginMessage(1, 9 * kMiB);
    }
    int64_t sent = 0;
    for (int round = 0; round < 8; ++round) {
      for (RawHttp2& one : flood) sent += one.SendBody(1, int64_t{1} << 20, absl::Milliseconds(20));
    }
    size_t ended = 0;
    for (RawHttp2& one : flood) {
      one.Pump(absl::Milliseconds(5));
      if (!one.is_open() || one.IsOver(1)) ++ended;
    }
    std::printf("flood: sent %d MiB, %zu of 48 calls broken off at once\n",
                static_cast<int>(sent >> 20), ended);
    // Those that are left are broken off in their time.
    const absl::Time begin = absl::Now();
    while (ended < flood.size() && absl::Now() - begin < absl::Seconds(60)) {
      ended = 0;
      for (RawHttp2& one : flood) {
        one.Pump(absl::Milliseconds(2));
        if (!one.is_open() || one.IsOver(1)) ++ended;
      }
    }
    EXPECT_EQ(ended, flood.size());
    std::printf("flood: all ended %s later\n", absl::FormatDuration(absl::Now() - begin).c_str());
  });
  EXPECT_FALSE(alone.empty());
  EXPECT_TRUE(flooded == alone) << "other weights under the flood";
  const uint64_t peak = PeakResidentBytes(server());
  std::printf("flood: memory of the server before %d MiB, at its peak %d MiB\n",
              static_cast<int>(before / kMiB), static_cast<int>(peak / kMiB));
  // The budget, what the job is planned to park, and what arrives between gRPC's looks at its
  // quota; of 384 MiB that were offered.
  EXPECT_LT(peak, before + 64 * kMiB + 160 * kMiB);
  EXPECT_TRUE(cluster_->daemon("coordinator").Running());
}

TEST_F(LimitsTest, AConnectionFloodIsSurvived) {
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  ASSERT_GE(files.rlim_cur, 4096u) << "this test needs to open more files";
  const rlimit few = {1024, files.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  cluster_->StartCoordinator("all", {"--stalled_call_timeout=2s"});
  cluster_->StartWorker("w1");
  setrlimit(RLIMIT_NOFILE, &files);
  const std::string alone = Train("alone", [] {});
  const uint64_t before = ResidentBytes(server());
  const std::string flooded = Train("flooded", [this] {
    std::vector<RawHttp2> silent;
    std::vector<RawHttp2> half;
    for (int i = 0; i < 1000; ++i) {
      silent.emplace_back(PortOf(cluster_->address()));
      half.emplace_back(PortOf(cluster_->address()));
      half.back().Send("PRI * HTTP/2");
    }
    const absl::Time begin = absl::Now();
    // Silent ones do not keep others out; those that fill the last place do for their ten seconds.
    const auto listed = cluster_->Client({"list"}, absl::Seconds(60));
    EXPECT_EQ(listed.exit_code, 0) << listed.output;
    std::printf("2000 connections: a client was answered after %s\n",
                absl::FormatDuration(absl::Now() - begin).c_str());
  });
  EXPECT_TRUE(flooded == alone) << "other weights under the flood";
  std::printf("2000 connections: memory before %d MiB, now %d MiB\n",
              static_cast<int>(before / kMiB), static_cast<int>(ResidentBytes(server()) / kMiB));
  EXPECT_LT(ResidentBytes(server()), before + 150 * kMiB);
}

TEST_F(LimitsTest, ASubmitFloodMeetsItsQuota) {
  cluster_->StartCoordinator("all", {"--max_queued_jobs=20"});
  const auto stub = Stub();
  v1::SubmitJobRequest request;
  *request.mutable_spec() = SmallJob("flood", 1, 1);
  request.set_await_daemons(true);
  const auto submit = [&](const std::string& request_id, uint64_t* job) {
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    request.set_request_id(request_id);
    v1::SubmitJobResponse response;
    const grpc::Status status = stub->SubmitJob(&context, request, &response);
    if (job != nullptr) *job = response.job().id();
    return status;
  };
  int accepted = 0;
  int refused = 0;
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 5000; ++i) {
    const grpc::Status status = submit(absl::StrCat("id-", i), nullptr);
    if (status.ok()) {
      ++accepted;
    } else if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
      ++refused;
      EXPECT_EQ(status.error_message(), "quota: 20 jobs are queued, the limit is 20; submit later");
    }
  }
  const absl::Duration took = absl::Now() - begin;
  EXPECT_EQ(accepted, 20);
  EXPECT_EQ(refused, 4980);
  // The same request is the same job, however full the queue is.
  for (int i = 0; i < 5000; ++i) {
    uint64_t job = 0;
    ASSERT_TRUE(submit("id-3", &job).ok());
    ASSERT_EQ(job, 4u);
  }
  absl::Duration slowest;
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    v1::ListJobsResponse list;
    const absl::Time asked = absl::Now();
    ASSERT_TRUE(stub->ListJobs(&context, v1::ListJobsRequest(), &list).ok());
    EXPECT_EQ(list.job_size(), 20);
    slowest = std::max(slowest, absl::Now() - asked);
  }
  std::printf("10000 submissions: 5000 new ones took %s; the slowest list took %s\n",
              absl::FormatDuration(took).c_str(), absl::FormatDuration(slowest).c_str());
  EXPECT_LT(slowest, absl::Seconds(2));
}

TEST_F(LimitsTest, RapidCancellationsLeaveNothingBehind) {
  cluster_->StartCoordinator("all");
  const auto stub = Stub();
  const auto start_and_cancel = [&stub] {
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    v1::WatchJobRequest request;
    request.set_job("none");
    const auto watch = stub->WatchJob(&context, request);
    context.TryCancel();
    watch->Finish();
  };
  // Memory that is let go stays with the process: what the second round takes that the first had
  // not is what is left behind.
  constexpr int kCalls = 10'000;
  std::array<uint64_t, 2> memory = {};
  for (uint64_t& after : memory) {
    const absl::Time begin = absl::Now();
    int calls = 0;
    for (; calls < kCalls && absl::Now() - begin < absl::Seconds(20); ++calls) start_and_cancel();
    // Until the last ones have ended.
    absl::SleepFor(absl::Seconds(1));
    after = ResidentBytes(server());
    std::printf("%d cancelled calls in %s: memory %d MiB\n", calls,
                absl::FormatDuration(absl::Now() - begin).c_str(), static_cast<int>(after / kMiB));
  }
  EXPECT_LT(memory[1], memory[0] + 40 * kMiB);
  const auto listed = cluster_->Client({"list"}, absl::Seconds(60));
  EXPECT_EQ(listed.exit_code, 0) << listed.output;
}

}  // namespace
}  // namespace sangam::testing
