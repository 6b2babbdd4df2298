// What a server lets peers take of it: connections that say nothing or half, calls without a
// message, messages without an end, streams that nobody reads. Deadlines are short here.
#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/sync_stream.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/memory_budget.h"
#include "common/base/refusal_counts.h"
#include "common/rpc/channel.h"
#include "common/rpc/server_runner.h"
#include "common/rpc/stalled_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.grpc.pb.h"
#include "tests/testing/raw_http2.h"

namespace sangam {
namespace {

constexpr char kSubmit[] = "/sangam.v1.JobService/SubmitJob";
constexpr char kGetCluster[] = "/sangam.v1.JobService/GetCluster";
constexpr uint64_t kMiB = uint64_t{1} << 20;

// Answers GetCluster, and writes logs for as long as somebody reads.
class Service final : public v1::JobService::Service {
 public:
  explicit Service(StalledCalls* stalled) : stalled_(stalled) {}

  grpc::Status GetCluster(grpc::ServerContext*, const v1::GetClusterRequest*,
                          v1::Cluster*) override {
    return grpc::Status::OK;
  }
  // Quiet until the client goes.
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    writer->Write(v1::JobEvent());
    while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(10));
    return grpc::Status::CANCELLED;
  }
  grpc::Status StreamLogs(grpc::ServerContext* context, const v1::StreamLogsRequest*,
                          grpc::ServerWriter<v1::LogLine>* writer) override {
    v1::LogLine line;
    line.set_text(std::string(100'000, 'x'));
    for (;;) {
      const StalledCalls::Write write(stalled_, context, "StreamLogs");
      if (!writer->Write(line)) break;
    }
    ended_.set_value();
    return grpc::Status::CANCELLED;
  }
  bool AwaitEndOfLogs() {
    return ended_.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  }

 private:
  StalledCalls* const stalled_;
  std::promise<void> ended_;
};

class ServerLimitsTest : public ::testing::Test {
 protected:
  ServerLimitsTest() {
    options_.listen = "127.0.0.1:0";
    options_.budget = &budget_;
    options_.counts = &counts_;
  }

  void Start() {
    auto server = ServerRunner::Start(
        options_, [this](grpc::ServerBuilder* builder) { builder->RegisterService(&service_); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::JobService::NewStub(*MakeControlChannel(ToString(server_->address())));
  }

  RawHttp2 Connect() { return RawHttp2(server_->address().port); }
  RawHttp2 Speaking() {
    RawHttp2 client = Connect();
    client.SendPreface();
    for (int i = 0; i < 100 && !client.has_settings(); ++i) client.Pump(absl::Milliseconds(50));
    EXPECT_TRUE(client.has_settings());
    return client;
  }

  bool Answers() {
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    v1::Cluster cluster;
    return stub_->GetCluster(&context, v1::GetClusterRequest(), &cluster).ok();
  }

  RefusalCounts counts_;
  MemoryBudget budget_{64 * kMiB, &counts_};
  StalledCalls stalled_{absl::Milliseconds(300), &Clock::Real(), &counts_};
  Service service_{&stalled_};
  ServerRunner::Options options_;
  std::unique_ptr<ServerRunner> server_;
  std::unique_ptr<v1::JobService::Stub> stub_;
};

TEST_F(ServerLimitsTest, SlowConnectionsAreClosedEachInItsTime) {
  options_.handshake_timeout = absl::Milliseconds(600);
  options_.max_connection_idle = absl::Milliseconds(1200);
  Start();
  RawHttp2 silent = Connect();
  const auto silent_closed = silent.AwaitClose(absl::Seconds(20));
  RawHttp2 half = Connect();
  half.Send("PRI * HTTP/2");
  const auto half_closed = half.AwaitClose(absl::Seconds(20));
  RawHttp2 idle = Speaking();
  const auto idle_closed = idle.AwaitClose(absl::Seconds(20));
  for (const auto& closed : {silent_closed, half_closed, idle_closed}) {
    ASSERT_TRUE(closed.has_value());
    std::printf("closed after %s\n", absl::FormatDuration(*closed).c_str());
    EXPECT_GE(*closed, absl::Milliseconds(400));
    EXPECT_LE(*closed, absl::Seconds(10));
  }
  EXPECT_EQ(counts_.Get(Refusal::kSilentConnection), 1u);
  EXPECT_TRUE(Answers());
}

TEST_F(ServerLimitsTest, CallsWithoutTheirMessageAreBrokenOff) {
  options_.stalled_call_timeout = absl::Seconds(1);
  Start();
  // A quiet call that has had its message, for the whole time.
  grpc::ClientContext context;
  SetTimeout(absl::Seconds(60), &context);
  const auto watch = stub_->WatchJob(&context, v1::WatchJobRequest());
  v1::JobEvent event;
  ASSERT_TRUE(watch->Read(&event));
  RawHttp2 without = Speaking();
  without.OpenCall(1, kSubmit);
  RawHttp2 slow = Speaking();
  slow.OpenCall(1, kSubmit);
  slow.BeginMessage(1, 1000);
  const absl::Time begin = absl::Now();
  while ((without.is_open() || slow.is_open()) && absl::Now() - begin < absl::Seconds(20)) {
    slow.SendBody(1, 1, absl::Milliseconds(100));  // a byte now and then
    slow.Pump(absl::Milliseconds(50));
    without.Pump(absl::Milliseconds(50));
  }
  std::printf("broken off after %s\n", absl::FormatDuration(absl::Now() - begin).c_str());
  EXPECT_FALSE(without.is_open());
  EXPECT_FALSE(slow.is_open());
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(900));
  EXPECT_EQ(counts_.Get(Refusal::kMissingMessage), 2u);
  EXPECT_TRUE(Answers());
  context.TryCancel();
  EXPECT_FALSE(watch->Read(&event));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(ServerLimitsTest, AQuietCallIsNotCutForOneThatWasRefused) {
  options_.stalled_call_timeout = absl::Seconds(1);
  Start();
  RawHttp2 client = Speaking();
  client.OpenCall(1, "/sangam.v1.JobService/WatchJob");
  client.BeginMessage(1, 0);  // all of it
  client.Pump(absl::Milliseconds(300));
  client.OpenCall(3, "/sangam.v1.JobService/NoSuchMethod");  // ends without a message
  const absl::Time begin = absl::Now();
  while (client.is_open() && absl::Now() - begin < absl::Seconds(4)) {
    client.Pump(absl::Milliseconds(50));
  }
  ASSERT_TRUE(client.is_open());
  EXPECT_TRUE(client.IsOver(3));
  EXPECT_FALSE(client.IsOver(1));
  EXPECT_EQ(counts_.Get(Refusal::kMissingMessage), 0u);
  // One that owes its message is found all the same.
  client.OpenCall(5, kSubmit);
  EXPECT_TRUE(client.AwaitClose(absl::Seconds(20)).has_value());
  // Counted a little after the connection is broken off.
  for (int i = 0; i < 500 && counts_.Get(Refusal::kMissingMessage) == 0; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(counts_.Get(Refusal::kMissingMessage), 1u);
  EXPECT_TRUE(Answers());
}

TEST_F(ServerLimitsTest, AMessageWithoutAnEndDoesNotFillTheMemory) {
  Start();
  ASSERT_TRUE(Answers());
  const uint64_t before = ResidentBytes(getpid());
  RawHttp2 client = Speaking();
  client.OpenCall(1, kSubmit);
  client.BeginMessage(1, uint32_t{1} << 30);
  // Far beyond the longest message that the server takes.
  const int64_t sent = client.SendBody(1, 400 * int64_t{1} << 20, absl::Seconds(20));
  client.Pump(absl::Milliseconds(100));
  const uint64_t grown = std::max(PeakResidentBytes(getpid()), before) - before;
  std::printf("sent %d MiB of a message of 1 GiB, memory grew by %d MiB\n",
              static_cast<int>(sent >> 20), static_cast<int>(grown >> 20));
  EXPECT_TRUE(client.IsOver(1));
  EXPECT_LT(grown, 64 * kMiB + 60 * kMiB);
  EXPECT_TRUE(Answers());
}

TEST_F(ServerLimitsTest, AStreamThatNobodyReadsIsCancelled) {
  Start();
  grpc::ClientContext context;
  SetTimeout(absl::Seconds(60), &context);
  const auto logs = stub_->StreamLogs(&context, v1::StreamLogsRequest());
  std::atomic<bool> done{false};
  auto checks = std::async(std::launch::async, [this, &done] {
    while (!done) {
      stalled_.Check();
      absl::SleepFor(absl::Milliseconds(20));
    }
  });
  EXPECT_TRUE(service_.AwaitEndOfLogs());
  done = true;
  checks.get();
  EXPECT_EQ(counts_.Get(Refusal::kStalledCall), 1u);
  EXPECT_TRUE(Answers());
  context.TryCancel();
}

TEST_F(ServerLimitsTest, LongMetadataIsRefused) {
  Start();
  const auto call = [this](size_t bytes) {
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    context.AddMetadata("x-long", std::string(bytes, 'x'));
    v1::Cluster cluster;
    return stub_->GetCluster(&context, v1::GetClusterRequest(), &cluster).error_code();
  };
  EXPECT_EQ(call(6 * 1024), grpc::StatusCode::OK);
  EXPECT_EQ(call(9 * 1024), grpc::StatusCode::RESOURCE_EXHAUSTED);
  // So much of it may be refused before it is known whose it is: with the connection.
  EXPECT_THAT(call(100 * 1024), ::testing::AnyOf(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                                 grpc::StatusCode::UNAVAILABLE));
  EXPECT_TRUE(Answers());
}

TEST_F(ServerLimitsTest, CallsOfOneConnectionBeyondItsNumberWait) {
  constexpr size_t kCalls = 128;
  Start();
  struct Watch {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::JobEvent>> events;
  };
  std::vector<std::unique_ptr<Watch>> watches;
  v1::JobEvent event;
  for (size_t i = 0; i < kCalls; ++i) {
    watches.push_back(std::make_unique<Watch>());
    SetTimeout(absl::Seconds(60), &watches.back()->context);
    watches.back()->events = stub_->WatchJob(&watches.back()->context, v1::WatchJobRequest());
    ASSERT_TRUE(watches.back()->events->Read(&event)) << i;
  }
  Watch more;
  SetTimeout(absl::Milliseconds(500), &more.context);
  more.events = stub_->WatchJob(&more.context, v1::WatchJobRequest());
  EXPECT_FALSE(more.events->Read(&event));
  EXPECT_EQ(more.events->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  // Another connection is not concerned, and a place that is free again is taken.
  const auto other = v1::JobService::NewStub(*MakeControlChannel(ToString(server_->address())));
  grpc::ClientContext context;
  SetTimeout(absl::Seconds(20), &context);
  v1::Cluster cluster;
  EXPECT_TRUE(other->GetCluster(&context, v1::GetClusterRequest(), &cluster).ok());
  watches[0]->context.TryCancel();
  EXPECT_TRUE(Answers());
  for (const auto& watch : watches) watch->context.TryCancel();
}

TEST_F(ServerLimitsTest, TooManyConnectionsAreClosedAtOnce) {
  options_.max_connections = 3;
  Start();
  ASSERT_TRUE(Answers());
  std::vector<RawHttp2> others;
  others.push_back(Speaking());
  others.push_back(Speaking());
  RawHttp2 fourth = Connect();
  fourth.SendPreface();
  EXPECT_TRUE(fourth.AwaitClose(absl::Seconds(20)).has_value());
  EXPECT_EQ(counts_.Get(Refusal::kConnections), 1u);
  EXPECT_EQ(server_->num_connections(), 3u);
  EXPECT_TRUE(Answers());
  others.clear();
  for (int i = 0; i < 200 && server_->num_connections() > 1; ++i) {
    absl::SleepFor(absl::Milliseconds(50));
  }
  RawHttp2 next = Speaking();
  next.OpenCall(1, kGetCluster);
  EXPECT_TRUE(next.is_open());
}

}  // namespace
}  // namespace sangam
