#include "server/rpc/cluster_service.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/node_agent.h"
#include "common/rpc/request_guard.h"
#include "common/rpc/server_runner.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.grpc.pb.h"
#include "server/runtime/coordinator.h"
#include "server/runtime/ticker.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using testing::Daemon;
using testing::Registration;

TEST(CompleteAddressTest, KeepsAWholeAddress) {
  EXPECT_EQ(CompleteAddress("10.0.0.1:7070", "ipv4:10.9.9.9:1234", "host").value(),
            "10.0.0.1:7070");
  EXPECT_EQ(CompleteAddress("127.0.0.1:7070", "ipv4:127.0.0.1:1234", "host").value(),
            "127.0.0.1:7070");
}

TEST(CompleteAddressTest, TakesTheHostFromThePeer) {
  EXPECT_EQ(CompleteAddress(":7071", "ipv4:10.9.9.9:1234", "host").value(), "10.9.9.9:7071");
  EXPECT_EQ(CompleteAddress("0.0.0.0:7071", "ipv4:10.9.9.9:1234", "host").value(), "10.9.9.9:7071");
  EXPECT_EQ(CompleteAddress(":7071", "ipv6:%5B2001:db8::7%5D:1234", "host").value(),
            "[2001:db8::7]:7071");
}

TEST(CompleteAddressTest, OfADaemonOnTheCoordinatorsMachineTheHostOthersKnow) {
  EXPECT_EQ(CompleteAddress(":7071", "ipv4:127.0.0.1:1234", "192.168.1.5").value(),
            "192.168.1.5:7071");
  EXPECT_EQ(CompleteAddress(":7071", "ipv6:%5B::1%5D:1234", "192.168.1.5").value(),
            "192.168.1.5:7071");
  EXPECT_EQ(CompleteAddress(":7071", "ipv4:127.0.0.1:1234", "").value(), "127.0.0.1:7071");
}

TEST(CompleteAddressTest, RefusesWhatNobodyCanReach) {
  for (const char* address : {"nonsense", "host:0", ":0", "host:99999"}) {
    const auto complete = CompleteAddress(address, "ipv4:10.9.9.9:1234", "host");
    EXPECT_EQ(complete.status().code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_EQ(complete.status().message().rfind("address: ", 0), 0u) << complete.status();
  }
}

class ClusterServiceTest : public ::testing::Test {
 protected:
  explicit ClusterServiceTest(const Coordinator::Options& options = {},
                              const CallLimits& limits = {})
      : coordinator_(options, &Clock::Real()),
        ticker_(absl::Milliseconds(20), [this] { coordinator_.Tick(); }),
        service_(&coordinator_, "", limits) {
    ServerRunner::Options runner;
    runner.listen = "127.0.0.1:0";
    auto server = ServerRunner::Start(
        runner, [this](grpc::ServerBuilder* builder) { builder->RegisterService(&service_); });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_ = ToString(server_->address());
    stub_ = v1::ClusterService::NewStub(*MakeControlChannel(address_));
  }
  ~ClusterServiceTest() override {
    coordinator_.Shutdown();
    server_->Shutdown(absl::Seconds(5));
  }

  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::ClusterService::Stub::*method)(grpc::ClientContext*,
                                                                     const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    return (*stub_.*method)(&context, request, response);
  }

  // Polls for at most 20 seconds.
  static bool Eventually(const std::function<bool()>& condition) {
    const absl::Duration deadline = Clock::Real().Steady() + absl::Seconds(20);
    Mutex mutex;
    CondVar never;
    while (!condition()) {
      if (Clock::Real().Steady() > deadline) return false;
      MutexLock lock(&mutex);
      never.WaitFor(&mutex, absl::Milliseconds(10));
    }
    return true;
  }

  Coordinator coordinator_;
  Ticker ticker_;
  GrpcClusterService service_;
  std::unique_ptr<ServerRunner> server_;
  std::string address_;
  std::unique_ptr<v1::ClusterService::Stub> stub_;
};

TEST_F(ClusterServiceTest, EveryCallReachesTheCoordinator) {
  v1::RegisterRequest registration = Registration(Daemon(v1::SERVER, "s-1"));
  registration.set_address(":7071");
  v1::RegisterResponse registered;
  ASSERT_TRUE(Call(&v1::ClusterService::Stub::Register, registration, &registered).ok());
  EXPECT_EQ(registered.address(), "127.0.0.1:7071");
  EXPECT_EQ(registered.lease_ms(), 5000u);

  v1::HeartbeatRequest heartbeat;
  *heartbeat.mutable_daemon() = registration.daemon();
  v1::HeartbeatResponse news;
  ASSERT_TRUE(Call(&v1::ClusterService::Stub::Heartbeat, heartbeat, &news).ok());
  EXPECT_GE(news.revision(), 1u);

  v1::ReportRequest report;
  *report.mutable_daemon() = registration.daemon();
  report.set_job(1);
  v1::ReportResponse reported;
  EXPECT_EQ(Call(&v1::ClusterService::Stub::Report, report, &reported).error_code(),
            grpc::StatusCode::ABORTED);

  v1::LeaveRequest leave;
  *leave.mutable_daemon() = registration.daemon();
  v1::LeaveResponse left;
  ASSERT_TRUE(Call(&v1::ClusterService::Stub::Leave, leave, &left).ok());
  EXPECT_EQ(Call(&v1::ClusterService::Stub::Heartbeat, heartbeat, &news).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

CallLimits OneWaits() {
  CallLimits limits;
  limits.max_waiting_heartbeats = 1;
  return limits;
}

class CrowdedTest : public ClusterServiceTest {
 protected:
  CrowdedTest() : ClusterServiceTest({}, OneWaits()) {}

  // How long a heartbeat without news took.
  absl::Duration Heartbeat(const v1::DaemonIdentity& daemon) {
    v1::HeartbeatRequest request;
    *request.mutable_daemon() = daemon;
    v1::HeartbeatResponse response;
    EXPECT_TRUE(Call(&v1::ClusterService::Stub::Heartbeat, request, &response).ok());
    request.set_known_revision(response.revision());
    request.set_max_wait_ms(1000);
    const absl::Duration begin = Clock::Real().Steady();
    EXPECT_TRUE(Call(&v1::ClusterService::Stub::Heartbeat, request, &response).ok());
    EXPECT_TRUE(response.unchanged());
    return Clock::Real().Steady() - begin;
  }
};

TEST_F(CrowdedTest, HeartbeatsWithoutAPlaceToWaitAreAnsweredAtOnce) {
  for (const char* name : {"w-1", "w-2", "w-3"}) {
    ASSERT_TRUE(coordinator_.Register(Registration(Daemon(v1::WORKER, name))).ok());
  }
  std::vector<std::future<absl::Duration>> waits;
  for (const char* name : {"w-1", "w-2", "w-3"}) {
    waits.push_back(std::async(std::launch::async,
                               [this, name] { return Heartbeat(Daemon(v1::WORKER, name)); }));
  }
  int waited = 0;
  for (auto& wait : waits) waited += wait.get() >= absl::Milliseconds(900) ? 1 : 0;
  EXPECT_LE(waited, 1);
  EXPECT_GE(Heartbeat(Daemon(v1::WORKER, "w-1")), absl::Milliseconds(900)) << "its place is free";
}

TEST_F(ClusterServiceTest, WorkersHaveAnAddressToo) {
  v1::RegisterRequest registration = Registration(Daemon(v1::WORKER, "w-1"));
  registration.set_address(":7072");
  v1::RegisterResponse registered;
  ASSERT_TRUE(Call(&v1::ClusterService::Stub::Register, registration, &registered).ok());
  EXPECT_EQ(registered.address(), "127.0.0.1:7072");
  EXPECT_EQ(coordinator_.DescribeCluster().daemon(0).address(), "127.0.0.1:7072");
  registration = Registration(Daemon(v1::WORKER, "w-2"));
  registration.clear_address();
  const grpc::Status status = Call(&v1::ClusterService::Stub::Register, registration, &registered);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message().rfind("address: found 0 bytes", 0), 0u);
}

TEST_F(ClusterServiceTest, ErrorsKeepCodeAndMessage) {
  v1::RegisterRequest registration = Registration(Daemon(v1::SERVER, "s-1"));
  registration.set_address("host:0");
  v1::RegisterResponse registered;
  const grpc::Status status = Call(&v1::ClusterService::Stub::Register, registration, &registered);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "address: found port 0 in \"host:0\", expected the port it listens on");
  registration = Registration(Daemon(v1::WORKER, "w-1"));
  registration.set_protocol_version(99);
  EXPECT_EQ(Call(&v1::ClusterService::Stub::Register, registration, &registered).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

NodeAgent::Options AgentOptions(const std::string& coordinator, const v1::DaemonIdentity& daemon) {
  NodeAgent::Options options;
  options.coordinator = coordinator;
  options.registration = Registration(daemon);
  return options;
}

class ShortLeaseTest : public ClusterServiceTest {
 protected:
  static Coordinator::Options Options() {
    Coordinator::Options options;
    options.lease = absl::Milliseconds(900);
    return options;
  }
  ShortLeaseTest() : ClusterServiceTest(Options()) {}

  bool IsAlive(const std::string& name) {
    const v1::Cluster cluster = coordinator_.DescribeCluster();
    for (const v1::DaemonStatus& daemon : cluster.daemon()) {
      if (daemon.name() == name) return daemon.alive();
    }
    return false;
  }
};

TEST_F(ShortLeaseTest, AnAgentKeepsItsDaemonAliveAndLeavingEndsIt) {
  auto agent =
      NodeAgent::Start(AgentOptions(address_, Daemon(v1::WORKER, "w-1")), [](const auto&) {});
  ASSERT_TRUE(agent.ok()) << agent.status();
  // A daemon without an agent, registered at the same time, is lost meanwhile.
  ASSERT_TRUE(coordinator_.Register(Registration(Daemon(v1::WORKER, "w-2"))).ok());
  ASSERT_TRUE(Eventually([this] { return !IsAlive("w-2"); }));
  EXPECT_TRUE(IsAlive("w-1"));
  EXPECT_TRUE((*agent)->stopped().ok());
  (*agent)->Leave("SIGTERM", absl::Seconds(5));
  EXPECT_FALSE(IsAlive("w-1"));
}

TEST_F(ShortLeaseTest, AProcessThatIsStartedAgainWaitsForTheLeaseOfTheKilledOne) {
  ASSERT_TRUE(coordinator_.Register(Registration(Daemon(v1::WORKER, "w-1", 1))).ok());
  const auto agent =
      NodeAgent::Start(AgentOptions(address_, Daemon(v1::WORKER, "w-1", 2)), [](const auto&) {});
  ASSERT_TRUE(agent.ok()) << agent.status();
  EXPECT_TRUE(IsAlive("w-1"));
}

TEST_F(ShortLeaseTest, AnAgentStopsWhenANewerProcessHasItsName) {
  const auto agent =
      NodeAgent::Start(AgentOptions(address_, Daemon(v1::WORKER, "w-1", 1)), [](const auto&) {});
  ASSERT_TRUE(agent.ok()) << agent.status();
  // As if it had been silent for a lease.
  v1::LeaveRequest leave;
  *leave.mutable_daemon() = Daemon(v1::WORKER, "w-1", 1);
  coordinator_.Leave(leave);
  // It may come back by itself before; then the name is taken and it must be made to go again.
  ASSERT_TRUE(Eventually([this, &leave] {
    if (coordinator_.Register(Registration(Daemon(v1::WORKER, "w-1", 2))).ok()) return true;
    coordinator_.Leave(leave);
    return false;
  }));
  ASSERT_TRUE(Eventually([&agent] { return !(*agent)->stopped().ok(); }));
  EXPECT_EQ((*agent)->stopped().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace sangam
