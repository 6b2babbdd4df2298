#include "common/rpc/call_observer.h"

#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/metrics/call_counts.h"
#include "common/rpc/channel.h"
#include "common/rpc/host_port.h"
#include "common/rpc/server_runner.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(CallObserverTest, CountsCallsByMethodAndCode) {
  CallCounts calls;
  ServerRunner::Options options;
  options.listen = "127.0.0.1:0";
  options.calls = &calls;
  const auto server = ServerRunner::Start(options, [](grpc::ServerBuilder*) {});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub =
      grpc::health::v1::Health::NewStub(*MakeControlChannel(ToString((*server)->address())));
  for (const char* service : {"", "", "nobody"}) {
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    stub->Check(&context, request, &response);
  }
  {
    // A stream that its client breaks off.
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    const auto reader = stub->Watch(&context, grpc::health::v1::HealthCheckRequest());
    grpc::health::v1::HealthCheckResponse response;
    ASSERT_TRUE(reader->Read(&response));
    context.TryCancel();
    EXPECT_FALSE(reader->Read(&response));
  }
  (*server)->Shutdown(absl::Seconds(10));
  const auto methods = calls.Methods();
  const auto check = methods.find("grpc.health.v1.Health/Check");
  ASSERT_NE(check, methods.end());
  EXPECT_EQ(check->second.codes.at("OK"), 2u);
  EXPECT_EQ(check->second.codes.at("NOT_FOUND"), 1u);
  EXPECT_EQ(check->second.calls, 3u);
  const auto watch = methods.find("grpc.health.v1.Health/Watch");
  ASSERT_NE(watch, methods.end());
  EXPECT_EQ(watch->second.calls, 1u);
}

}  // namespace
}  // namespace sangam
