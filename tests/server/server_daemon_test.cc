#include "server/server_daemon.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/rpc/daemon_process.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "proto/data_service.grpc.pb.h"
#include "proto/job_service.grpc.pb.h"
#include "proto/job_service.pb.h"
#include "proto/tensor.pb.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

ServerOptions Options(const std::string& name) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.name = name;
  options.incarnation = NewIncarnation();
  options.start_deadline = absl::Seconds(2);
  return options;
}

v1::Cluster ClusterAt(const std::string& address) {
  auto stub =
      v1::JobService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(10)));
  v1::Cluster cluster;
  const grpc::Status status = stub->GetCluster(&context, v1::GetClusterRequest(), &cluster);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return cluster;
}

class ServerDaemonTest : public ::testing::Test {
 protected:
  ShutdownSignal signal_;
};

TEST_F(ServerDaemonTest, OneProcessIsCoordinatorAndServer) {
  const auto daemon = ServerDaemon::Start(Options("s1"), signal_);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  const v1::Cluster cluster = ClusterAt((*daemon)->address());
  ASSERT_EQ(cluster.daemon_size(), 1);
  EXPECT_EQ(cluster.daemon(0).name(), "s1");
  EXPECT_EQ(cluster.daemon(0).address(), (*daemon)->address());
  EXPECT_TRUE((*daemon)->stopped().ok());
  (*daemon)->Shutdown("test");
}

TEST_F(ServerDaemonTest, AnotherServerJoinsAndLeaves) {
  const auto first = ServerDaemon::Start(Options("s1"), signal_);
  ASSERT_TRUE(first.ok()) << first.status();
  ServerOptions options = Options("s2");
  options.coordinate = false;
  options.coordinator = (*first)->address();
  {
    const auto second = ServerDaemon::Start(options, signal_);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(ClusterAt((*first)->address()).daemon_size(), 2);
    (*second)->Shutdown("test");
  }
  int alive = 0;
  const v1::Cluster cluster = ClusterAt((*first)->address());
  for (const v1::DaemonStatus& status : cluster.daemon()) {
    if (status.alive()) ++alive;
  }
  EXPECT_EQ(alive, 1);
}

TEST_F(ServerDaemonTest, FaultsNameTheFlag) {
  ServerOptions options = Options("s1");
  options.listen = "nowhere";
  EXPECT_THAT(std::string(ServerDaemon::Start(options, signal_).status().message()),
              HasSubstr("--listen"));
  const auto first = ServerDaemon::Start(Options("s1"), signal_);
  ASSERT_TRUE(first.ok());
  options.listen = (*first)->address();
  const absl::Status in_use = ServerDaemon::Start(options, signal_).status();
  EXPECT_THAT(std::string(in_use.message()), HasSubstr((*first)->address()));
  options = Options("s2");
  options.coordinate = false;
  // Nothing listens on port 1.
  options.coordinator = "127.0.0.1:1";
  const absl::Status unreachable = ServerDaemon::Start(options, signal_).status();
  EXPECT_EQ(unreachable.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(unreachable.message()), HasSubstr("--coordinator"));
  EXPECT_THAT(std::string(unreachable.message()), HasSubstr("127.0.0.1:1"));
  options = Options("s1");
  options.data_root = "/nowhere";
  const absl::Status no_data = ServerDaemon::Start(options, signal_).status();
  EXPECT_EQ(no_data.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(no_data.message()), HasSubstr("--data_root: data_root \"/nowhere\""));
}

TEST_F(ServerDaemonTest, OnlyACoordinatorServesData) {
  const auto ask = [](const std::string& address) {
    auto stub =
        v1::DataService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(10)));
    const auto stream = stub->Feed(&context);
    v1::TensorFrame hello;
    hello.mutable_header()->set_kind(v1::FRAME_KIND_HELLO);
    hello.mutable_header()->set_job(8);
    stream->Write(hello);
    while (stream->Read(&hello)) {
    }
    return stream->Finish();
  };
  ServerOptions options = Options("s1");
  options.data_root = ::testing::TempDir();
  const auto first = ServerDaemon::Start(options, signal_);
  ASSERT_TRUE(first.ok()) << first.status();
  const grpc::Status unknown = ask((*first)->address());
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_message(), HasSubstr("job 8: the coordinator serves no data of it"));
  options = Options("s2");
  options.coordinate = false;
  options.coordinator = (*first)->address();
  const auto second = ServerDaemon::Start(options, signal_);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(ask((*second)->address()).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace sangam
