// Votes between servers over real streams: three servers in this process.
#include "server/rpc/vote_connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/version.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.grpc.pb.h"
#include "proto/plan.pb.h"
#include "server/runtime/shard_table.h"
#include "server/runtime/vote_link.h"
#include "tests/server/core/naive_merge.h"
#include "tests/server/runtime/shard_fixture.h"
#include "tests/testing/parameter_server.h"

namespace sangam {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

// The servers of one job that clips and skips; their reports.
class Servers {
 public:
  explicit Servers(int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back(absl::StrCat("s", i));
    job_ = SmallJob(5, 2, names);
    job_.mutable_spec()->mutable_optimizer()->mutable_clipping()->set_max_norm(0.5f);
    job_.mutable_spec()->set_on_nonfinite(v1::SKIP_STEP);
    for (int i = 0; i < count; ++i) {
      ShardTableOptions options;
      options.open_link = [this](VoteLinkOptions link, std::weak_ptr<VoteSource> source) {
        return connections_.Open(std::move(link), std::move(source));
      };
      options.report = [this](v1::ReportRequest report) {
        MutexLock lock(&mutex_);
        reports_.push_back(std::move(report));
      };
      tables_.push_back(std::make_unique<ShardTable>(names[i], options));
      servers_.emplace_back();
      ports_.push_back(0);
      StartServer(i);
      v1::ServerPlan* plan = job_.mutable_plan()->mutable_server(i);
      plan->set_address(servers_[i]->address());
      plan->set_incarnation(1000 + i);
    }
    for (const auto& table : tables_) table->Reconcile({job_});
  }
  ~Servers() { connections_.Stop(); }

  void Run() {
    job_.set_phase(v1::Assignment::RUN);
    for (const auto& table : tables_) table->Reconcile({job_});
  }

  void StartServer(int i) {
    ParameterService::Options options;
    options.check_interval = absl::Milliseconds(20);
    ShardTable* table = tables_[i].get();
    servers_[i] = ParameterServer::Start(
        options, [table](uint64_t job) { return table->Find(job); }, ports_[i],
        [table](uint64_t job) { return table->FindCounter(job); });
    ASSERT_NE(servers_[i], nullptr);
    ports_[i] = servers_[i]->port();
  }
  void StopServer(int i) { servers_[i].reset(); }
  void DropJob(int i) { tables_[i]->Reconcile({}); }

  // The gradient of one step to every page, or to those of one server.
  void Push(uint64_t step, float value, int only_server = -1) {
    int number = 0;
    for (const PageName& page : SmallJobPages()) {
      const int server = number++ % static_cast<int>(tables_.size());
      if (only_server >= 0 && server != only_server) continue;
      v1::FrameHeader header = GradientHeader(job_.plan(), page, step, {0, 2}, 1);
      header.set_source(1);
      const auto shard = *tables_[server]->Find(5);
      std::vector<float> values(page.element_count);
      for (size_t i = 0; i < values.size(); ++i) values[i] = value * static_cast<float>(i + 1);
      ASSERT_TRUE(shard->AddGradient(header, OnePiece(values)).ok());
    }
  }

  // By segment and first element, when every page has come to `step`; else nothing.
  using Weights = std::map<std::pair<uint32_t, uint64_t>, std::vector<float>>;
  Weights Await(uint64_t step) {
    const absl::Time deadline = absl::Now() + kLong;
    while (absl::Now() < deadline) {
      Weights weights;
      for (const auto& table : tables_) {
        for (const PageWeights& page : (*table->Find(5))->ReadWeights()) {
          if (page.header.step() != step) continue;
          weights[{page.header.segment(), page.header.first_element()}] = FloatsOf(page.elements);
        }
      }
      if (weights.size() == SmallJobPages().size()) return weights;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return {};
  }

  std::vector<v1::ReportRequest> AwaitReports(size_t count) {
    const absl::Time deadline = absl::Now() + kLong;
    for (;;) {
      {
        MutexLock lock(&mutex_);
        if (reports_.size() >= count || absl::Now() >= deadline) return reports_;
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  const v1::Plan& plan() const { return job_.plan(); }
  v1::Assignment* job() { return &job_; }
  void Assign() {
    for (const auto& table : tables_) table->Reconcile({job_});
  }

 private:
  VoteConnections connections_;
  v1::Assignment job_;
  std::vector<std::unique_ptr<ShardTable>> tables_;
  std::vector<std::unique_ptr<ParameterServer>> servers_;
  std::vector<int> ports_;
  Mutex mutex_;
  std::vector<v1::ReportRequest> reports_ ABSL_GUARDED_BY(mutex_);
};

TEST(VoteConnectionTest, ServersDecideTogetherAndTheirNumberDoesNotCount) {
  std::vector<Servers::Weights> results;
  for (const int count : {1, 2, 3}) {
    Servers servers(count);
    servers.Run();
    for (uint64_t step = 0; step < 4; ++step) {
      servers.Push(step, step == 2 ? std::numeric_limits<float>::infinity() : 1);
      ASSERT_EQ(servers.Await(step + 1).size(), 4u) << count << " servers, step " << step;
    }
    results.push_back(servers.Await(4));
    const std::vector<v1::ReportRequest> reports = servers.AwaitReports(1);
    ASSERT_EQ(reports.size(), 1u);
    EXPECT_EQ(reports[0].job(), 5u);
    EXPECT_EQ(reports[0].report(0).skipped_step().step(), 2u);
    EXPECT_EQ(reports[0].report(0).skipped_step().why(),
              "worker w1, segment 0, shares [0,2); worker w1, segment 1, shares [0,2)");
  }
  EXPECT_TRUE(results[1] == results[0]);
  EXPECT_TRUE(results[2] == results[0]);
}

TEST(VoteConnectionTest, VotesThatComeBeforeTheJobRunsAreKept) {
  Servers servers(3);
  servers.Push(0, 1);
  servers.Run();
  EXPECT_EQ(servers.Await(1).size(), 4u);
}

TEST(VoteConnectionTest, ConnectsAgainAndSendsItsVotesAgain) {
  Servers servers(3);
  servers.Run();
  servers.Push(0, 1);
  ASSERT_EQ(servers.Await(1).size(), 4u);
  servers.StopServer(0);
  for (const int server : {1, 2, 0}) servers.Push(1, 1, server);
  servers.StartServer(0);
  EXPECT_EQ(servers.Await(2).size(), 4u);
}

TEST(VoteConnectionTest, ANewGenerationEndsAStepThatHungInTheMiddle) {
  Servers servers(3);
  servers.Run();
  servers.Push(0, 1, 1);
  servers.Push(0, 1, 0);
  servers.job()->mutable_plan()->set_generation(2);
  servers.job()->set_phase(v1::Assignment::PREPARE);
  servers.Assign();
  servers.Run();
  servers.Push(0, 1);  // two of the servers have it already
  EXPECT_EQ(servers.Await(1).size(), 4u);
  servers.Push(1, 1);
  EXPECT_EQ(servers.Await(2).size(), 4u);
}

TEST(VoteConnectionTest, AServerThatFindsNoCounterFailsTheJob) {
  Servers servers(2);
  servers.DropJob(0);
  servers.Run();
  const std::vector<v1::ReportRequest> reports = servers.AwaitReports(1);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].report(0).failed().code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_NE(reports[0].report(0).failed().message().find("server 's0'"), std::string::npos)
      << reports[0].report(0).failed().message();
}

// A server whose memory is used up for the first few streams.
class CrowdedServer final : public v1::ParameterService::Service {
 public:
  grpc::Status Vote(grpc::ServerContext*,
                    grpc::ServerReaderWriter<v1::StepDecision, v1::StepVotes>* stream) override {
    v1::StepVotes votes;
    if (!stream->Read(&votes) || ++calls < 4) {
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, text};
    }
    stream->Write(v1::StepDecision());
    while (stream->Read(&votes)) {
    }
    return grpc::Status::OK;
  }

  std::atomic<int> calls{0};
  std::string text = "Received RST_STREAM with error code 11";
};

class OneDecision final : public VoteSource {
 public:
  void SendAgain(uint64_t /*generation*/) override {}
  std::optional<v1::StepVotes> NextVotes(uint64_t /*generation*/) override { return std::nullopt; }
  absl::Status OnDecision(const v1::StepDecision& /*decision*/) override {
    end.set_value(absl::OkStatus());
    return absl::OkStatus();
  }
  void OnLinkFailed(uint64_t /*generation*/, const absl::Status& status) override {
    end.set_value(status);
  }

  std::promise<absl::Status> end;
};

// How a link to the server ends up.
absl::Status VoteAt(CrowdedServer* server) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(server);
  const std::unique_ptr<grpc::Server> serving = builder.BuildAndStart();
  VoteConnections connections;
  VoteLinkOptions options;
  options.server = "s0";
  options.address = absl::StrCat("127.0.0.1:", port);
  const auto source = std::make_shared<OneDecision>();
  const auto link = connections.Open(options, source);
  std::future<absl::Status> end = source->end.get_future();
  const bool ended = end.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  connections.Stop();
  serving->Shutdown(std::chrono::system_clock::now());
  return ended ? end.get() : absl::DeadlineExceededError("nothing came");
}

TEST(VoteConnectionTest, StreamsThatAreBrokenOffForRoomAreOpenedAgain) {
  CrowdedServer crowded;
  const absl::Status status = VoteAt(&crowded);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(crowded.calls, 4);
  // What the service itself refuses is final.
  CrowdedServer refusing;
  refusing.text = "too many streams";
  EXPECT_EQ(VoteAt(&refusing).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refusing.calls, 1);
}

class VoteStreamTest : public ::testing::Test {
 protected:
  VoteStreamTest() : servers_(3) {
    hello_.set_job(5);
    hello_.set_generation(1);
    hello_.set_server(1);
    hello_.set_protocol_version(kProtocolVersion);
    hello_.set_schema_hash(servers_.plan().schema_hash());
    hello_.set_incarnation(1001);
  }

  // Sends the messages and returns what the call ended with.
  grpc::Status Call(const std::vector<v1::StepVotes>& messages) {
    const auto channel = grpc::CreateChannel(servers_.plan().server(0).address(),
                                             grpc::InsecureChannelCredentials());
    const auto stub = v1::ParameterService::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto stream = stub->Vote(&context);
    for (const v1::StepVotes& message : messages) stream->Write(message);
    stream->WritesDone();
    v1::StepDecision decision;
    while (stream->Read(&decision)) {
    }
    return stream->Finish();
  }

  Servers servers_;
  v1::StepVotes hello_;
};

TEST_F(VoteStreamTest, EndsInOrder) { EXPECT_TRUE(Call({hello_}).ok()); }

TEST_F(VoteStreamTest, RefusesOtherBeginnings) {
  const auto expect = [this](const v1::StepVotes& hello, grpc::StatusCode code,
                             const std::string& part) {
    const grpc::Status status = Call({hello});
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_NE(status.error_message().find(part), std::string::npos)
        << status.error_message() << " lacks " << part;
  };
  v1::StepVotes bad = hello_;
  bad.set_job(6);
  expect(bad, grpc::StatusCode::NOT_FOUND, "job 6");
  bad = hello_;
  bad.set_generation(0);
  expect(bad, grpc::StatusCode::ABORTED, "generation");
  bad.set_generation(2);
  expect(bad, grpc::StatusCode::FAILED_PRECONDITION, "generation");
  bad = hello_;
  bad.set_server(0);
  expect(bad, grpc::StatusCode::INVALID_ARGUMENT, "server: found 0");
  bad.set_server(3);
  expect(bad, grpc::StatusCode::INVALID_ARGUMENT, "server: found 3");
  bad = hello_;
  bad.set_incarnation(1);
  expect(bad, grpc::StatusCode::ABORTED, "incarnation of server 's1'");
  bad = hello_;
  bad.set_schema_hash(1);
  expect(bad, grpc::StatusCode::FAILED_PRECONDITION, "schema");
  bad = hello_;
  bad.set_protocol_version(99);
  expect(bad, grpc::StatusCode::FAILED_PRECONDITION, "protocol version");
  bad = hello_;
  bad.add_page();
  expect(bad, grpc::StatusCode::INVALID_ARGUMENT, "page: found 1");
}

TEST_F(VoteStreamTest, RefusesVotesThatDoNotFit) {
  v1::StepVotes votes = hello_;
  votes.add_page()->add_value(1);  // page 0 lies on server 0
  grpc::Status status = Call({hello_, votes});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  votes.set_server(2);
  status = Call({hello_, votes});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_NE(status.error_message().find("on a stream of job 5, server 1"), std::string::npos);
  votes.set_job(6);
  status = Call({hello_, votes});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << status.error_message();
}

}  // namespace
}  // namespace sangam
