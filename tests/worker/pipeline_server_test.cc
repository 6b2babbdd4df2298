#include "worker/pipeline_server.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/process_credentials.h"
#include "common/security/security_flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// All addresses, without TLS: only by those who say so.
void AllowAllAddresses() {
  SecurityFlags flags;
  flags.insecure_allow_remote = true;
  SetProcessCredentials(ProcessCredentials::ForDaemon(flags).value());
}

absl::StatusOr<std::string> AddressOf(const std::string& listen, const std::string& advertise) {
  PipelineServer::Options options;
  options.listen = listen;
  options.advertise = advertise;
  const absl::StatusOr<std::unique_ptr<PipelineServer>> server = PipelineServer::Start(options);
  if (!server.ok()) return server.status();
  return (*server)->address();
}

TEST(PipelineServerTest, RegistersWhereItListensWithThePortThatWasChosen) {
  EXPECT_THAT(AddressOf("127.0.0.1:0", "").value(), MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
}

TEST(PipelineServerTest, OnAllAddressesTheHostIsTheCoordinatorsToSay) {
  AllowAllAddresses();
  EXPECT_THAT(AddressOf(":0", "").value(), MatchesRegex(":[1-9][0-9]*"));
}

TEST(PipelineServerTest, AdvertisesAHostWithOrWithoutPort) {
  AllowAllAddresses();
  EXPECT_EQ(AddressOf(":0", "10.0.0.1:4242").value(), "10.0.0.1:4242");
  EXPECT_THAT(AddressOf("127.0.0.1:0", "gpu-3").value(), MatchesRegex("gpu-3:[1-9][0-9]*"));
  EXPECT_THAT(AddressOf("127.0.0.1:0", "[fe80::1]").value(), StartsWith("[fe80::1]:"));
}

TEST(PipelineServerTest, BadAddressesNameTheFlag) {
  const absl::Status listen = AddressOf("127.0.0.1", "").status();
  EXPECT_EQ(listen.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(listen.message()), StartsWith("--listen: "));
  const absl::Status advertise = AddressOf("127.0.0.1:0", "a:b:c").status();
  EXPECT_EQ(advertise.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(advertise.message()), HasSubstr("--advertise: found \"a:b:c\""));
}

TEST(PipelineServerTest, PortOfAnotherProcessIsRefused) {
  const auto first = PipelineServer::Start({}).value();
  const absl::Status second = AddressOf(first->address(), "").status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace sangam
