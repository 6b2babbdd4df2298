#include "common/rpc/health_service.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/readiness.h"
#include "common/rpc/channel.h"
#include "common/rpc/host_port.h"
#include "common/rpc/server_runner.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class HealthServiceTest : public ::testing::Test {
 protected:
  HealthServiceTest() {
    ServerRunner::Options options;
    options.listen = "127.0.0.1:0";
    options.services = {"sangam.v1.JobService"};
    options.readiness = &readiness_;
    auto server = ServerRunner::Start(options, [](grpc::ServerBuilder*) {});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = grpc::health::v1::Health::NewStub(*MakeControlChannel(ToString(server_->address())));
  }

  // "SERVING", or the code of the error.
  std::string Check(const std::string& service) {
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    const grpc::Status status = stub_->Check(&context, request, &response);
    return status.ok() ? HealthCheckResponse::ServingStatus_Name(response.status())
                       : std::to_string(status.error_code());
  }

  Readiness readiness_;
  std::unique_ptr<ServerRunner> server_;
  std::unique_ptr<grpc::health::v1::Health::Stub> stub_;
};

TEST_F(HealthServiceTest, LiveWhileItAnswersReadyWhenTheDaemonIs) {
  EXPECT_EQ(Check("live"), "SERVING");
  for (const char* name : {"", "ready", "sangam.v1.JobService", "grpc.health.v1.Health"}) {
    EXPECT_EQ(Check(name), "NOT_SERVING") << name;
  }
  readiness_.SetReady();
  for (const char* name : {"", "live", "ready", "sangam.v1.JobService", "grpc.health.v1.Health"}) {
    EXPECT_EQ(Check(name), "SERVING") << name;
  }
  readiness_.SetNotReady("draining");
  EXPECT_EQ(Check("ready"), "NOT_SERVING");
  EXPECT_EQ(Check("live"), "SERVING");
}

TEST_F(HealthServiceTest, OtherNamesAreNotFound) {
  EXPECT_EQ(Check("sangam.v1.ParameterService"), std::to_string(grpc::StatusCode::NOT_FOUND));
}

TEST_F(HealthServiceTest, WatchTellsEachChangeAndTheEnd) {
  grpc::ClientContext context;
  SetTimeout(absl::Seconds(20), &context);
  HealthCheckRequest request;
  request.set_service("ready");
  const auto reader = stub_->Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  readiness_.SetReady();
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  server_->Shutdown(absl::Seconds(5));
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(reader->Read(&response));
}

TEST_F(HealthServiceTest, WatchesAreBounded) {
  constexpr int kWatches = 64;
  struct Watcher {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader;
  };
  std::vector<std::unique_ptr<Watcher>> watchers;
  HealthCheckResponse response;
  const auto watch = [&] {
    watchers.push_back(std::make_unique<Watcher>());
    SetTimeout(absl::Seconds(20), &watchers.back()->context);
    watchers.back()->reader = stub_->Watch(&watchers.back()->context, HealthCheckRequest());
    return watchers.back()->reader->Read(&response);
  };
  for (int i = 0; i < kWatches; ++i) ASSERT_TRUE(watch()) << i;
  EXPECT_FALSE(watch());
  EXPECT_EQ(watchers.back()->reader->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Check("live"), "SERVING");
  for (const auto& watcher : watchers) watcher->context.TryCancel();
}

TEST_F(HealthServiceTest, WatchOfAnUnknownNameSaysSo) {
  grpc::ClientContext context;
  SetTimeout(absl::Seconds(20), &context);
  HealthCheckRequest request;
  request.set_service("nobody");
  const auto reader = stub_->Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  context.TryCancel();
}

}  // namespace
}  // namespace sangam
