// What each caller sees and may do, with real handshakes: jobs of its own, streams under its own
// name.
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/process_credentials.h"
#include "common/rpc/server_runner.h"
#include "common/security/identity.h"
#include "common/security/security_flags.h"
#include "common/security/token_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/admin_service.grpc.pb.h"
#include "proto/cluster_service.grpc.pb.h"
#include "proto/job_service.grpc.pb.h"
#include "proto/parameter_service.grpc.pb.h"
#include "proto/plan.pb.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/cluster_service.h"
#include "server/rpc/job_service.h"
#include "server/runtime/coordinator.h"
#include "server/runtime/parameter_shard.h"
#include "server/runtime/shard_table.h"
#include "tests/server/core/control_fixtures.h"
#include "tests/testing/parameter_server.h"
#include "tests/testing/test_certificates.h"
#include "tests/testing/test_identities.h"
#include "tests/testing/wire_client.h"
#include "tests/testing/wire_job.h"

namespace sangam {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

using Credentials = std::shared_ptr<ProcessCredentials>;

// The process is a coordinator.
class CallerRightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SecurityFlags flags;
    flags.tls = certificates_.Issue("coordinator");
    flags.tokens = certificates_.folder() + "/tokens";
    flags.audit_log = certificates_.folder() + "/audit";
    WriteTestFile(flags.tokens, "# nobody\n");
    auto made = ProcessCredentials::ForDaemon(flags);
    ASSERT_TRUE(made.ok()) << made.status();
    SetProcessCredentials(*made);
  }
  void TearDown() override { SetProcessCredentials(std::make_shared<ProcessCredentials>()); }

  Credentials As(const std::string& role, const std::string& name = "") {
    return CallerWith(certificates_.Issue(role, name));
  }

  // From now on these are all.
  void SetTokens(const std::string& lines) {
    WriteTestFile(certificates_.folder() + "/tokens", lines);
    CurrentProcessCredentials()->Reload();
  }
  Credentials WithToken(const std::string& token) {
    SecurityFlags flags;
    flags.tls.authority = certificates_.authority_file();
    flags.token_file = certificates_.folder() + "/token";
    WriteTestFile(flags.token_file, token);
    auto made = ProcessCredentials::ForClient(flags);
    EXPECT_TRUE(made.ok()) << made.status();
    return *made;
  }

  // Lines of the audit log with all of these in them.
  std::vector<std::string> Audited(const std::vector<std::string>& parts) const {
    std::vector<std::string> lines;
    std::ifstream file(certificates_.folder() + "/audit");
    for (std::string line; std::getline(file, line);) {
      const bool all = std::all_of(parts.begin(), parts.end(), [&line](const std::string& part) {
        return absl::StrContains(line, part);
      });
      if (all) lines.push_back(line);
    }
    return lines;
  }

  // The same for what is written when its caller knows already: waits for the first line.
  std::vector<std::string> AwaitAudited(const std::vector<std::string>& parts) const {
    for (int tries = 0; tries < 1000; ++tries) {
      std::vector<std::string> lines = Audited(parts);
      if (!lines.empty()) return lines;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return {};
  }

  TestCertificates certificates_;
};

class JobRightsTest : public CallerRightsTest {
 protected:
  using Stub = v1::JobService::Stub;

  void SetUp() override {
    CallerRightsTest::SetUp();
    coordinator_ = std::make_unique<Coordinator>(Coordinator::Options(), &Clock::Real());
    jobs_ = std::make_unique<GrpcJobService>(coordinator_.get());
    cluster_ = std::make_unique<GrpcClusterService>(coordinator_.get(), "");
    admin_ = std::make_unique<GrpcAdminService>(coordinator_.get());
    ServerRunner::Options options;
    options.listen = "127.0.0.1:0";
    auto started = ServerRunner::Start(options, [this](grpc::ServerBuilder* builder) {
      builder->RegisterService(jobs_.get());
      builder->RegisterService(cluster_.get());
      builder->RegisterService(admin_.get());
    });
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }
  void TearDown() override {
    coordinator_->Shutdown();
    server_->Shutdown(absl::Seconds(5));
    server_.reset();
    CallerRightsTest::TearDown();
  }

  std::unique_ptr<Stub> StubAs(const std::string& role, const std::string& name) {
    return v1::JobService::NewStub(
        *MakeControlChannel(ToString(server_->address()), As(role, name)));
  }

  template <typename Request, typename Response>
  static grpc::Status Call(Stub& stub,
                           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                        Response*),
                           const Request& request, Response* response) {
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    return (stub.*method)(&context, request, response);
  }

  static v1::Job Submit(Stub& stub, const std::string& name, const std::string& request_id) {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = testing::SmallJob(name, 1, 1);
    request.set_await_daemons(true);
    request.set_request_id(request_id);
    v1::SubmitJobResponse response;
    const grpc::Status status = Call(stub, &Stub::SubmitJob, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job();
  }

  static grpc::Status Get(Stub& stub, const std::string& job, v1::Job* response) {
    v1::GetJobRequest request;
    request.set_job(job);
    return Call(stub, &Stub::GetJob, request, response);
  }

  // How every call about one job ends.
  static std::vector<grpc::Status> Everything(Stub& stub, const std::string& job) {
    std::vector<grpc::Status> ends;
    v1::Job answer;
    ends.push_back(Get(stub, job, &answer));
    v1::GetTraceRequest trace;
    trace.set_job(job);
    v1::JobTrace traced;
    ends.push_back(Call(stub, &Stub::GetTrace, trace, &traced));
    v1::CancelJobRequest cancel;
    cancel.set_job(job);
    ends.push_back(Call(stub, &Stub::CancelJob, cancel, &answer));
    v1::DeleteJobRequest remove;
    remove.set_job(job);
    v1::DeleteJobResponse removed;
    ends.push_back(Call(stub, &Stub::DeleteJob, remove, &removed));
    {
      grpc::ClientContext context;
      SetTimeout(absl::Seconds(20), &context);
      v1::WatchJobRequest watch;
      watch.set_job(job);
      v1::JobEvent event;
      const auto stream = stub.WatchJob(&context, watch);
      while (stream->Read(&event)) {
      }
      ends.push_back(stream->Finish());
    }
    {
      grpc::ClientContext context;
      SetTimeout(absl::Seconds(20), &context);
      v1::StreamLogsRequest logs;
      logs.set_job(job);
      v1::LogLine line;
      const auto stream = stub.StreamLogs(&context, logs);
      while (stream->Read(&line)) {
      }
      ends.push_back(stream->Finish());
    }
    return ends;
  }

  static std::vector<uint64_t> List(Stub& stub) {
    v1::ListJobsResponse response;
    EXPECT_TRUE(Call(stub, &Stub::ListJobs, v1::ListJobsRequest(), &response).ok());
    std::vector<uint64_t> ids;
    for (const v1::Job& job : response.job()) ids.push_back(job.id());
    return ids;
  }

  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<GrpcJobService> jobs_;
  std::unique_ptr<GrpcClusterService> cluster_;
  std::unique_ptr<GrpcAdminService> admin_;
  std::unique_ptr<ServerRunner> server_;
};

TEST_F(JobRightsTest, AForeignJobIsLikeOneThatDoesNotExist) {
  const auto alice = StubAs("client", "alice");
  const auto bob = StubAs("client", "bob");
  ASSERT_EQ(Submit(*alice, "hers", "").id(), 1u);
  const std::vector<grpc::Status> foreign = Everything(*bob, "1");
  const std::vector<grpc::Status> missing = Everything(*bob, "7");
  ASSERT_EQ(foreign.size(), missing.size());
  for (size_t i = 0; i < foreign.size(); ++i) {
    EXPECT_EQ(foreign[i].error_code(), StatusCode::NOT_FOUND) << i;
    EXPECT_EQ(missing[i].error_code(), StatusCode::NOT_FOUND) << i;
    std::string expected = missing[i].error_message();
    const size_t number = expected.find('7');
    if (number != std::string::npos) expected[number] = '1';
    EXPECT_EQ(foreign[i].error_message(), expected) << i;
  }
  EXPECT_THAT(List(*bob), ::testing::IsEmpty());
  v1::Job job;
  ASSERT_TRUE(Get(*alice, "1", &job).ok());
  EXPECT_EQ(job.state(), v1::QUEUED) << "nothing of it was done";
  EXPECT_EQ(job.owner(), "alice");
}

TEST_F(JobRightsTest, NamesAndRequestIdsBelongToTheirOwner) {
  const auto alice = StubAs("client", "alice");
  const auto bob = StubAs("client", "bob");
  EXPECT_EQ(Submit(*alice, "same", "id").id(), 1u);
  EXPECT_EQ(Submit(*bob, "same", "id").id(), 2u);
  EXPECT_EQ(Submit(*alice, "same", "id").id(), 1u) << "the repetition of the first";
  v1::Job job;
  ASSERT_TRUE(Get(*alice, "same", &job).ok());
  EXPECT_EQ(job.id(), 1u);
  ASSERT_TRUE(Get(*bob, "same", &job).ok());
  EXPECT_EQ(job.id(), 2u);
  v1::CancelJobRequest cancel;
  cancel.set_job("same");
  ASSERT_TRUE(Call(*alice, &Stub::CancelJob, cancel, &job).ok());
  EXPECT_EQ(job.id(), 1u);
}

TEST_F(JobRightsTest, ViewersReadAllAdminsDoAll) {
  const auto alice = StubAs("client", "alice");
  const auto viewer = StubAs("viewer", "eve");
  const auto admin = StubAs("admin", "");
  Submit(*alice, "a", "");
  Submit(*admin, "b", "");
  EXPECT_THAT(List(*alice), ::testing::ElementsAre(1));
  EXPECT_THAT(List(*viewer), ::testing::ElementsAre(2, 1));
  EXPECT_THAT(List(*admin), ::testing::ElementsAre(2, 1));
  v1::Job job;
  EXPECT_TRUE(Get(*viewer, "a", &job).ok());
  v1::CancelJobRequest cancel;
  cancel.set_job("a");
  EXPECT_EQ(Call(*viewer, &Stub::CancelJob, cancel, &job).error_code(),
            StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(Call(*admin, &Stub::CancelJob, cancel, &job).ok());
}

TEST_F(JobRightsTest, DaemonsSpeakForThemselves) {
  const auto register_as = [this](const std::string& role, const std::string& certificate,
                                  v1::DaemonRole as, const std::string& name) {
    const auto stub = v1::ClusterService::NewStub(
        *MakeControlChannel(ToString(server_->address()), As(role, certificate)));
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    v1::RegisterResponse response;
    return stub->Register(&context, testing::Registration(testing::Daemon(as, name)), &response)
        .error_code();
  };
  EXPECT_EQ(register_as("worker", "w0", v1::WORKER, "w0"), StatusCode::OK);
  EXPECT_EQ(register_as("worker", "w0", v1::WORKER, "w1"), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(register_as("worker", "w0", v1::SERVER, "w0"), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(register_as("worker", "", v1::WORKER, "any"), StatusCode::OK);
  EXPECT_EQ(register_as("server", "s0", v1::WORKER, "s0"), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(register_as("coordinator", "c", v1::SERVER, "c"), StatusCode::OK);
  EXPECT_EQ(register_as("admin", "", v1::WORKER, "w9"), StatusCode::PERMISSION_DENIED);

  // The other calls of another one's name change nothing.
  const auto stub = v1::ClusterService::NewStub(
      *MakeControlChannel(ToString(server_->address()), As("worker", "w2")));
  grpc::ClientContext context;
  SetTimeout(absl::Seconds(20), &context);
  v1::LeaveRequest leave;
  *leave.mutable_daemon() = testing::Daemon(v1::WORKER, "w0");
  v1::LeaveResponse left;
  EXPECT_EQ(stub->Leave(&context, leave, &left).error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(coordinator_->DescribeCluster().daemon(0).alive());
  EXPECT_EQ(Audited({"worker/w2", "ipv4:127.0.0.1:", "\"Leave\"", "worker w0", "PERMISSION_DENIED"})
                .size(),
            1u);
}

TEST_F(JobRightsTest, StreamsEndWithTheTokenThatOpenedThem) {
  const auto alice = MakeToken({Role::kClient, "alice"}, absl::InfiniteFuture());
  const auto bob = MakeToken({Role::kClient, "bob"}, absl::InfiniteFuture());
  ASSERT_TRUE(alice.ok() && bob.ok());
  SetTokens(absl::StrCat(alice->line, "\n", bob->line, "\n"));
  const auto stub = v1::JobService::NewStub(
      *MakeControlChannel(ToString(server_->address()), WithToken(alice->token)));
  Submit(*stub, "hers", "");
  // The job starts, which is a line.
  ASSERT_TRUE(
      coordinator_->Register(testing::Registration(testing::Daemon(v1::SERVER, "s-1"))).ok());
  ASSERT_TRUE(
      coordinator_->Register(testing::Registration(testing::Daemon(v1::WORKER, "w-1"))).ok());
  coordinator_->Tick();
  grpc::ClientContext watch_context;
  SetTimeout(absl::Seconds(20), &watch_context);
  v1::WatchJobRequest watch;
  watch.set_job("hers");
  const auto events = stub->WatchJob(&watch_context, watch);
  v1::JobEvent event;
  ASSERT_TRUE(events->Read(&event));
  grpc::ClientContext logs_context;
  SetTimeout(absl::Seconds(20), &logs_context);
  v1::StreamLogsRequest logs;
  logs.set_job("hers");
  logs.set_follow(true);
  const auto lines = stub->StreamLogs(&logs_context, logs);
  v1::LogLine line;
  ASSERT_TRUE(lines->Read(&line));

  SetTokens(bob->line + "\n");
  while (events->Read(&event)) {
  }
  const grpc::Status watched = events->Finish();
  EXPECT_EQ(watched.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(watched.error_message(), HasSubstr("client/alice"));
  while (lines->Read(&line)) {
  }
  EXPECT_EQ(lines->Finish().error_code(), StatusCode::UNAUTHENTICATED);
}

TEST_F(JobRightsTest, DrainsAreInTheAuditLog) {
  ASSERT_TRUE(
      coordinator_->Register(testing::Registration(testing::Daemon(v1::WORKER, "w-1"))).ok());
  const auto drain = [this](const std::string& name, bool undrain) {
    const auto stub = v1::AdminService::NewStub(
        *MakeControlChannel(ToString(server_->address()), As("admin", "root")));
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    v1::DrainDaemonRequest request;
    request.set_name(name);
    request.set_undrain(undrain);
    v1::DrainDaemonResponse response;
    return stub->DrainDaemon(&context, request, &response).ok();
  };
  EXPECT_TRUE(drain("w-1", false));
  EXPECT_TRUE(drain("w-1", true));
  EXPECT_FALSE(drain("w-7", false));
  EXPECT_EQ(
      Audited({"admin/root", "ipv4:127.0.0.1:", "\"DrainDaemon\"", "worker w-1", "\"OK\""}).size(),
      1u);
  EXPECT_EQ(Audited({"\"UndrainDaemon\"", "worker w-1", "\"OK\""}).size(), 1u);
  EXPECT_EQ(Audited({"\"DrainDaemon\"", "w-7", "NOT_FOUND"}).size(), 1u);
}

// Whatever the refusal is for: it costs its caller nothing, and the disk is not his.
TEST_F(JobRightsTest, RefusalsDoNotFillTheAuditLog) {
  const auto alice = StubAs("client", "alice");
  constexpr int kCalls = 300;
  for (int i = 0; i < kCalls; ++i) {
    v1::SubmitJobResponse response;
    ASSERT_EQ(Call(*alice, &Stub::SubmitJob, v1::SubmitJobRequest(), &response).error_code(),
              StatusCode::INVALID_ARGUMENT);
  }
  const size_t written = Audited({"client/alice", "SubmitJob"}).size();
  // Of the hundred at once some are for the connection.
  EXPECT_GE(written, 90u);
  EXPECT_LT(written, 200u);
  // What is done is written all the same.
  Submit(*alice, "good", "");
  EXPECT_EQ(Audited({"client/alice", "SubmitJob", "\"OK\""}).size(), 1u);
}

class StreamRightsTest : public CallerRightsTest {
 protected:
  void SetUp() override {
    CallerRightsTest::SetUp();
    WireJob job;
    job.segments = {100};
    job.page_elements = 64;
    job.workers = 2;
    assignment_ = MakeAssignment(job);
    assignment_.set_owner("alice");
    ASSERT_EQ(table_.Reconcile({assignment_}).size(), 1u);
    table_.Reconcile({Running(assignment_)});
    server_ = ParameterServer::Start(ParameterService::Options(),
                                     [this](uint64_t id) { return table_.Find(id); });
    ASSERT_NE(server_, nullptr);
  }
  void TearDown() override {
    server_.reset();
    CallerRightsTest::TearDown();
  }

  const v1::Plan& plan() const { return assignment_.plan(); }
  std::string WorkerName(int index) const { return plan().worker(index).name(); }

  std::shared_ptr<grpc::Channel> ChannelAs(const std::string& role, const std::string& name) {
    return CreateDataChannel(server_->address(), 5000, kDataServers, As(role, name));
  }

  // How the stream of a worker ends that does all as it should under this certificate.
  absl::Status Stream(const std::string& role, const std::string& name,
                      const std::optional<v1::TensorFrame>& more = std::nullopt) {
    WireClient client(ChannelAs(role, name));
    client.Write(HelloFrame(plan()));
    if (more.has_value()) client.Write(*more);
    client.HalfClose();
    return client.Finish();
  }

  absl::StatusCode Read(const std::string& role, const std::string& name, uint64_t job) {
    const auto stub = v1::ParameterService::NewStub(ChannelAs(role, name));
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    v1::ReadWeightsRequest request;
    request.set_job(job);
    const auto stream = stub->ReadWeights(&context, request);
    v1::TensorFrame frame;
    int frames = 0;
    while (stream->Read(&frame)) ++frames;
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(frames > 0, status.ok());
    return static_cast<absl::StatusCode>(status.error_code());
  }

  std::vector<float> Weights() {
    const auto pages = (*table_.Find(plan().job()))->ReadWeights();
    std::string bytes(pages[0].elements.size(), '\0');
    pages[0].elements.CopyTo(bytes.data());
    return BytesToFloats(bytes);
  }

  v1::Assignment assignment_;
  ShardTable table_{"server-0"};
  std::unique_ptr<ParameterServer> server_;
};

TEST_F(StreamRightsTest, AStreamIsForTheWorkerOfTheCertificate) {
  EXPECT_TRUE(Stream("worker", WorkerName(0)).ok());
  EXPECT_TRUE(Stream("worker", "").ok());
  const absl::Status other = Stream("worker", WorkerName(1));
  EXPECT_EQ(other.code(), absl::StatusCode::kPermissionDenied) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr(WorkerName(0)));
  EXPECT_EQ(AwaitAudited(
                {absl::StrCat("worker/", WorkerName(1)), "ipv4:127.0.0.1:", "PushPull", "DENIED"})
                .size(),
            1u);
  EXPECT_EQ(Stream("worker", "stranger").code(), absl::StatusCode::kPermissionDenied);
  for (const char* role : {"client", "viewer", "server", "coordinator", "admin"}) {
    const absl::Status refused = Stream(role, "");
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << role << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("PushPull"));
  }
}

TEST_F(StreamRightsTest, FramesOfAnotherJobEndTheStreamAndChangeNothing) {
  const std::vector<float> before = Weights();
  v1::TensorFrame gradient = GradientFrame(plan(), 0, 0, 0, std::vector<float>(64, 1.0f));
  gradient.mutable_header()->set_job(plan().job() + 1);
  EXPECT_EQ(Stream("worker", WorkerName(0), gradient).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Weights(), before);
}

TEST_F(StreamRightsTest, WeightsAreForTheOwnerAndThoseWhoSeeAll) {
  const uint64_t job = plan().job();
  EXPECT_EQ(Read("client", "alice", job), absl::StatusCode::kOk);
  EXPECT_EQ(Read("viewer", "", job), absl::StatusCode::kOk);
  EXPECT_EQ(Read("admin", "", job), absl::StatusCode::kOk);
  EXPECT_EQ(Read("client", "bob", job), absl::StatusCode::kNotFound);
  EXPECT_EQ(Read("client", "", job), absl::StatusCode::kNotFound);
  EXPECT_EQ(Read("client", "bob", job + 1), absl::StatusCode::kNotFound);
  EXPECT_EQ(Read("worker", WorkerName(0), job), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace sangam
