#include "server/core/registration.h"

#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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
  EXPECT_NE(status.message().find(absl::StrCat("speaks ", kProtocolVersion + 1,
                                               ", the coordinator ", kProtocolVersion)),
            absl::string_view::npos)
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

  for (const v1::DaemonRole role : {v1::SERVER, v1::WORKER}) {
    v1::RegisterRequest daemon = Registration(Daemon(role, "d"));
    daemon.clear_address();
    ExpectFault(daemon, "address: found 0 bytes, expected \"host:port\"");
    daemon.set_address(std::string(513, 'h'));
    ExpectFault(daemon, "address: found 513 bytes, expected \"host:port\" of at most 512");
  }
  v1::RegisterRequest worker = Registration(Daemon(v1::WORKER, "w"));
  worker.set_backend(std::string(1000, 'x'));
  ExpectFault(worker, "backend: found 1000 bytes");
  worker = Registration(Daemon(v1::WORKER, "w"));
  worker.mutable_device()->set_driver(std::string(129, 'x'));
  ExpectFault(worker, "device: found a text of 129 bytes, expected at most 128");
}

TEST(RegistrationTest, AUnitIsABackendAndItsDevice) {
  v1::RegisterRequest worker = Registration(Daemon(v1::WORKER, "w"));
  worker.set_backend("cpu");
  EXPECT_EQ(UnitOf(worker), "cpu");
  worker.set_backend("cuda");
  worker.mutable_device()->set_name("NVIDIA H200");
  EXPECT_EQ(UnitOf(worker), "cuda NVIDIA H200");
}

TEST(RegistrationTest, ASpeedIsANumberOrNotKnown) {
  v1::RegisterRequest worker = Registration(Daemon(v1::WORKER, "w"));
  for (const double speed : {0.0, 5e10}) {
    worker.set_flops_per_second(speed);
    EXPECT_TRUE(CheckRegistration(worker).ok()) << speed;
  }
  for (const double speed :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    worker.set_flops_per_second(speed);
    ExpectFault(worker, "flops_per_second: found ");
  }
}

}  // namespace
}  // namespace sangam
