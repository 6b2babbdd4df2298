#include "common/rpc/coordinator_link.h"

#include <grpcpp/support/status.h>

#include <future>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.grpc.pb.h"
#include "tests/common/rpc/fake_cluster.h"

namespace sangam {
namespace {

absl::Status WaitForNews(CoordinatorLink* link, absl::Duration timeout) {
  v1::HeartbeatRequest request;
  request.set_known_revision(1);  // what the fake has: the answer takes a second
  request.set_max_wait_ms(1000);
  v1::HeartbeatResponse response;
  return link->Call(&CoordinatorLink::Stub::Heartbeat, request, timeout, &response);
}

TEST(CoordinatorLinkTest, CallsAndReturnsTheStatusOfTheCall) {
  FakeCluster cluster;
  CoordinatorLink link(cluster.address());
  cluster.FailRegister({grpc::StatusCode::ALREADY_EXISTS});
  v1::RegisterRequest request;
  v1::RegisterResponse response;
  const absl::Status first =
      link.Call(&CoordinatorLink::Stub::Register, request, absl::Seconds(20), &response);
  EXPECT_EQ(first.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(first.message(), "told to");
  EXPECT_TRUE(
      link.Call(&CoordinatorLink::Stub::Register, request, absl::Seconds(20), &response).ok());
  EXPECT_EQ(response.address(), "seen:7071");
}

TEST(CoordinatorLinkTest, TimesOutAndGoesOnWithNewConnections) {
  FakeCluster cluster;
  CoordinatorLink link(cluster.address());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(WaitForNews(&link, absl::Milliseconds(30)).code(),
              absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_TRUE(WaitForNews(&link, absl::Seconds(20)).ok());
}

TEST(CoordinatorLinkTest, CloseBreaksOffCallsAndLetsNoneBegin) {
  FakeCluster cluster;
  CoordinatorLink link(cluster.address());
  auto call =
      std::async(std::launch::async, [&link] { return WaitForNews(&link, absl::Seconds(20)); });
  ASSERT_TRUE(cluster.WaitForHeartbeats(1));
  link.Close();
  ASSERT_EQ(call.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(call.get().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(WaitForNews(&link, absl::Seconds(20)).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(cluster.heartbeats(), 1);
}

}  // namespace
}  // namespace sangam
