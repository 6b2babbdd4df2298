#include "common/rpc/server_runner.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/slice.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/rpc/channel.h"
#include "common/rpc/process_credentials.h"
#include "common/security/security_flags.h"
#include "gtest/gtest.h"
#include "proto/job_service.grpc.pb.h"

namespace sangam {
namespace {

// Answers GetCluster when it is let, and at the latest when the call is cancelled.
class WaitingService final : public v1::JobService::Service {
 public:
  grpc::Status GetCluster(grpc::ServerContext* context, const v1::GetClusterRequest*,
                          v1::Cluster*) override {
    entered_.set_value();
    while (go_.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }
  void WaitUntilEntered() {
    ASSERT_EQ(entered_.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
  void Go() { let_go_.set_value(); }

 private:
  std::promise<void> entered_;
  std::promise<void> let_go_;
  std::future<void> go_ = let_go_.get_future();
};

absl::StatusOr<std::unique_ptr<ServerRunner>> StartOn(const std::string& listen) {
  SecurityFlags open;
  open.insecure_allow_remote = true;
  auto credentials = ProcessCredentials::ForDaemon(open);
  EXPECT_TRUE(credentials.ok()) << credentials.status();
  ServerRunner::Options options;
  options.listen = listen;
  options.credentials = *std::move(credentials);
  return ServerRunner::Start(options, [](grpc::ServerBuilder*) {});
}

// One call with raw bytes; returns the bytes of the answer or "<code>".
std::string RawCall(const std::string& address, const std::string& method,
                    const std::string& request) {
  auto channel = MakeControlChannel(address);
  EXPECT_TRUE(channel.ok()) << channel.status();
  grpc::GenericStub stub(*channel);
  grpc::ClientContext context;
  SetTimeout(absl::Seconds(20), &context);
  grpc::CompletionQueue queue;
  const auto next = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return ok;
  };
  auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  next();
  const grpc::Slice slice(request);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  next();
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  const bool read = next();
  grpc::Status status;
  call->Finish(&status, nullptr);
  next();
  if (!read || !status.ok()) return absl::StrCat("<", status.error_code(), ">");
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(answer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& s : slices) {
    bytes.append(reinterpret_cast<const char*>(s.begin()), s.size());
  }
  return bytes;
}

TEST(ServerRunnerTest, PicksAFreePortAndSaysWhich) {
  const auto server = StartOn("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->address().host, "127.0.0.1");
  EXPECT_NE((*server)->address().port, 0);
  const auto other = StartOn("127.0.0.1:0");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE((*other)->address().port, (*server)->address().port);
}

TEST(ServerRunnerTest, TwoServersNeverShareAPort) {
  for (const char* first : {"127.0.0.1", "0.0.0.0", "localhost", ""}) {
    const auto server = StartOn(absl::StrCat(first, ":0"));
    ASSERT_TRUE(server.ok()) << server.status();
    const int port = (*server)->address().port;
    for (const char* second : {"127.0.0.1", "0.0.0.0", "localhost", ""}) {
      const auto other = StartOn(absl::StrCat(second, ":", port));
      EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition)
          << first << " and " << second;
      EXPECT_NE(other.status().message().find(absl::StrCat(":", port, ": Address already in use")),
                absl::string_view::npos)
          << other.status();
    }
  }
}

TEST(ServerRunnerTest, APortIsFreeAgainAfterTheServer) {
  auto server = StartOn("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = ToString((*server)->address());
  server->reset();
  const auto again = StartOn(address);
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST(ServerRunnerTest, SaysWhyItCannotListen) {
  EXPECT_EQ(StartOn("nonsense").status().code(), absl::StatusCode::kInvalidArgument);
  // TEST-NET-1 is nobody's address.
  const auto foreign = StartOn("192.0.2.1:7070");
  EXPECT_EQ(foreign.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(foreign.status().message().find(
                "cannot listen on 192.0.2.1:7070: Cannot assign requested address"),
            absl::string_view::npos)
      << foreign.status();
  EXPECT_NE(StartOn("no-such-host.invalid:7070").status().message().find("no-such-host.invalid"),
            absl::string_view::npos);
}

TEST(ServerRunnerTest, ServesHealthAndReflection) {
  WaitingService service;
  ServerRunner::Options options;
  options.listen = "127.0.0.1:0";
  const auto server = ServerRunner::Start(
      options, [&service](grpc::ServerBuilder* builder) { builder->RegisterService(&service); });
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = ToString((*server)->address());
  // grpc.health.v1.HealthCheckResponse{status: SERVING}.
  EXPECT_EQ(RawCall(address, "/grpc.health.v1.Health/Check", ""), "\x08\x01");
  // ServerReflectionRequest{list_services: "*"}.
  EXPECT_NE(RawCall(address, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                    std::string("\x3a\x01*", 3))
                .find("sangam.v1.JobService"),
            std::string::npos);
  // The same for the health service and channelz.
  for (const char* name : {"grpc.health.v1.Health", "grpc.channelz.v1.Channelz"}) {
    EXPECT_NE(RawCall(address, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                      std::string("\x3a\x01*", 3))
                  .find(name),
              std::string::npos)
        << name;
  }
  // ServerReflectionRequest{file_containing_symbol: "grpc.health.v1.Health"}.
  EXPECT_NE(RawCall(address, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                    std::string("\x22\x15grpc.health.v1.Health", 23))
                .find("HealthCheckResponse"),
            std::string::npos);
}

TEST(ServerRunnerTest, ShutdownLetsCallsEndWithinItsDeadline) {
  WaitingService service;
  ServerRunner::Options options;
  options.listen = "127.0.0.1:0";
  const auto server = ServerRunner::Start(
      options, [&service](grpc::ServerBuilder* builder) { builder->RegisterService(&service); });
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = ToString((*server)->address());
  auto call = std::async(std::launch::async, [&address] {
    return RawCall(address, "/sangam.v1.JobService/GetCluster", "");
  });
  service.WaitUntilEntered();
  auto shutdown =
      std::async(std::launch::async, [&server] { (*server)->Shutdown(absl::Seconds(20)); });
  service.Go();
  EXPECT_EQ(call.get(), "");
  EXPECT_EQ(shutdown.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(ServerRunnerTest, ShutdownCancelsCallsThatTakeLonger) {
  WaitingService service;
  ServerRunner::Options options;
  options.listen = "127.0.0.1:0";
  const auto server = ServerRunner::Start(
      options, [&service](grpc::ServerBuilder* builder) { builder->RegisterService(&service); });
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = ToString((*server)->address());
  auto call = std::async(std::launch::async, [&address] {
    return RawCall(address, "/sangam.v1.JobService/GetCluster", "");
  });
  service.WaitUntilEntered();
  (*server)->Shutdown(absl::Milliseconds(50));
  EXPECT_NE(call.get(), "");
}

}  // namespace
}  // namespace sangam
