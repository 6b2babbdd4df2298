#include "server/core/registration.h"

#include <string>

#include "absl/status/status.h"
#include "common/base/version.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using testing::Daemon;
using testing::Registration;

void ExpectFault(const v1::RegisterRequest& request, const std::string& text) {
  const absl::Status status = CheckRegistration(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(status.message().rfind(text, 0), 0u) << status;
}

TEST(RegistrationTest, AcceptsServersAndWorkers) {
  EXPECT_TRUE(CheckRegistration(Registration(Daemon(v1::SERVER, "host-1.example_2"))).ok());
  EXPECT_TRUE(CheckRegistration(Registration(Daemon(v1::WORKER, "w"))).ok());
}

TEST(RegistrationTest, AnotherProtocolVersionIsRefusedWithBothVersions) {
  v1::RegisterRequest request = Registration(Daemon(v1::WORKER, "w"));
  request.set_protocol_version(kProtocolVersion + 1);
  const absl::Status status = CheckRegistration(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("speaks 2, the coordinator 1"), absl::string_view::npos)
      << status;
}

TEST(RegistrationTest, NamesTheFieldAtFault) {
  ExpectFault(Registration(Daemon(v1::DAEMON_ROLE_UNSPECIFIED, "x")), "daemon.role: found 0");
  for (const char* name : {"", "a b", "a\nb", "a/b", "\xc3\xa9"}) {
    ExpectFault(Registration(Daemon(v1::WORKER, name)), "daemon.name: found");
  }
  ExpectFault(Registration(Daemon(v1::WORKER, std::string(129, 'a'))), "daemon.name: found");
  EXPECT_TRUE(CheckRegistration(Registration(Daemon(v1::WORKER, std::string(128, 'a')))).ok());
  ExpectFault(Registration(Daemon(v1::WORKER, "w", 0)), "daemon.incarnation: found 0");

  v1::RegisterRequest server = Registration(Daemon(v1::SERVER, "s"));
  server.clear_address();
  ExpectFault(server, "address: found 0 bytes, expected \"host:port\"");
  v1::RegisterRequest worker = Registration(Daemon(v1::WORKER, "w"));
  worker.set_address("h:1");
  ExpectFault(worker, "address: found 3 bytes, expected none");
  worker = Registration(Daemon(v1::WORKER, "w"));
  worker.set_backend(std::string(1000, 'x'));
  ExpectFault(worker, "backend: found 1000 bytes");
}

}  // namespace
}  // namespace sangam
