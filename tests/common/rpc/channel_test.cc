#include "common/rpc/channel.h"

#include <arpa/inet.h>
#include <grpcpp/client_context.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.grpc.pb.h"
#include "proto/job_service.grpc.pb.h"
#include "tests/common/rpc/fake_cluster.h"

namespace sangam {
namespace {

// A socket on loopback that is bound and, when `listens`, takes connections that nobody serves.
class SilentPort {
 public:
  explicit SilentPort(bool listens) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    if (listens) {
      EXPECT_EQ(listen(fd_, 8), 0);
    }
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPort() { close(fd_); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  int fd_;
  int port_ = 0;
};

grpc::Status CallJobService(const std::string& address, absl::Duration timeout) {
  auto channel = MakeControlChannel(address);
  EXPECT_TRUE(channel.ok()) << channel.status();
  const auto stub = v1::JobService::NewStub(*channel);
  grpc::ClientContext context;
  SetTimeout(timeout, &context);
  v1::Cluster cluster;
  return stub->GetCluster(&context, {}, &cluster);
}

TEST(ChannelTest, RefusesWhatIsNoTarget) {
  for (const char* address : {"", "localhost", ":7070", "h:0", "dns:///h:1"}) {
    EXPECT_FALSE(MakeControlChannel(address).ok()) << address;
  }
}

TEST(ChannelTest, NobodyListeningIsUnavailableLongBeforeTheDeadline) {
  const SilentPort port(/*listens=*/false);
  const absl::Duration begin = Clock::Real().Steady();
  EXPECT_EQ(CallJobService(port.address(), absl::Seconds(30)).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(20));
}

TEST(ChannelTest, AnAnswerThatTakesTooLongIsNotWaitedFor) {
  FakeCluster cluster;
  const auto stub = v1::ClusterService::NewStub(*MakeControlChannel(cluster.address()));
  grpc::ClientContext context;
  SetTimeout(absl::Milliseconds(100), &context);
  v1::HeartbeatRequest request;
  request.set_known_revision(1);  // what the fake has: the answer takes a second
  request.set_max_wait_ms(1000);
  v1::HeartbeatResponse response;
  EXPECT_EQ(stub->Heartbeat(&context, request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST(ChannelTest, APeerThatSaysNothingEndsWithTheDeadline) {
  const SilentPort port(/*listens=*/true);
  const absl::Duration begin = Clock::Real().Steady();
  const grpc::StatusCode code =
      CallJobService(port.address(), absl::Milliseconds(300)).error_code();
  EXPECT_TRUE(code == grpc::StatusCode::DEADLINE_EXCEEDED || code == grpc::StatusCode::UNAVAILABLE)
      << code;
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(20));
}

}  // namespace
}  // namespace sangam
