#include "client/commands/doctor.h"

#include <grpcpp/support/status.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/job_service.pb.h"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/doctor/one_answer.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

using ::sangam::testing::ClosedPort;
using ::sangam::testing::OneAnswer;
using ::testing::HasSubstr;
using ::testing::Not;

class DoctorTest : public CommandFixture {
 protected:
  DoctorTest() { coordinator_.SetCluster(Healthy()); }

  v1::Cluster Healthy() const {
    v1::Cluster cluster;
    cluster.set_version(kVersion);
    cluster.set_protocol_version(kProtocolVersion);
    cluster.mutable_time()->set_seconds(absl::ToUnixSeconds(clock_.Wall()));
    for (const char* const role : {"server", "worker"}) {
      v1::DaemonStatus* const daemon = cluster.add_daemon();
      daemon->set_role(role);
      daemon->set_name(absl::StrCat(role, "-0"));
      daemon->set_alive(true);
    }
    return cluster;
  }

  // What the doctor calls a fault: "subject: found", for these flags.
  std::vector<std::string> FaultsWith(const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"doctor", "--output=json", "--timeout=2s"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const int code = Run(arguments);
    std::vector<std::string> faults;
    for (const auto& finding : nlohmann::json::parse(out())) {
      if (finding["verdict"] != "FAULT") continue;
      EXPECT_NE(finding["fix"], "") << finding;
      faults.push_back(absl::StrCat(finding["subject"].get<std::string>(), ": ",
                                    finding["found"].get<std::string>()));
    }
    EXPECT_EQ(code, faults.empty() ? 0 : 1) << err();
    return faults;
  }
  std::string OnlyFaultWith(const std::vector<std::string>& flags) {
    const std::vector<std::string> faults = FaultsWith(flags);
    EXPECT_EQ(faults.size(), 1u) << out();
    return faults.empty() ? "" : faults.front();
  }
  std::string At(const std::string& address) const {
    return absl::StrCat("--coordinator=", address);
  }
  std::vector<std::string> Certs(const std::string& certificate, const std::string& key) const {
    const std::string folder = absl::StrCat(directory_, "/certs");
    return {"--local", absl::StrCat("--tls_cert=", folder, "/", certificate),
            absl::StrCat("--tls_key=", folder, "/", key),
            absl::StrCat("--tls_ca=", folder, "/ca.crt")};
  }

  FakeCoordinator coordinator_;
};

TEST_F(DoctorTest, AHealthyClusterHasNoFaults) {
  EXPECT_TRUE(FaultsWith({At(coordinator_.address())}).empty()) << out();
  EXPECT_EQ(Run({"doctor", At(coordinator_.address())}), 0);
  EXPECT_THAT(out(), HasSubstr("ok       daemons: 1 servers and 1 workers are there\n"));
}

TEST_F(DoctorTest, ANameThatDoesNotResolve) {
  EXPECT_THAT(OnlyFaultWith({At("no-such-host.invalid:7070")}),
              HasSubstr("name no-such-host.invalid: does not resolve"));
}

TEST_F(DoctorTest, APortThatNobodyListensOn) {
  const std::string address = absl::StrCat("127.0.0.1:", ClosedPort());
  EXPECT_EQ(OnlyFaultWith({At(address)}),
            absl::StrCat("coordinator ", address, ": nobody answers: Connection refused"));
}

TEST_F(DoctorTest, APeerThatIsNoCoordinator) {
  const OneAnswer web("HTTP/1.1 400 Bad Request\r\n\r\n");
  EXPECT_THAT(OnlyFaultWith({At(web.address())}), HasSubstr("speaks no gRPC"));
}

TEST_F(DoctorTest, ACoordinatorWithTlsAndAClientWithout) {
  const OneAnswer tls(std::string("\x15\x03\x01\0\2\2\x46", 7));
  EXPECT_THAT(OnlyFaultWith({At(tls.address())}), HasSubstr("wants TLS"));
}

TEST_F(DoctorTest, AnotherProtocol) {
  v1::Cluster cluster = Healthy();
  cluster.set_protocol_version(kProtocolVersion + 1);
  coordinator_.SetCluster(cluster);
  EXPECT_THAT(OnlyFaultWith({At(coordinator_.address())}), HasSubstr("version: "));
}

TEST_F(DoctorTest, AClockThatIsWrong) {
  v1::Cluster cluster = Healthy();
  cluster.mutable_time()->set_seconds(cluster.time().seconds() - 86'400);
  coordinator_.SetCluster(cluster);
  EXPECT_EQ(OnlyFaultWith({At(coordinator_.address())}),
            "clock of the coordinator: is 1d00h behind this machine's");
}

TEST_F(DoctorTest, NoWorkers) {
  v1::Cluster cluster = Healthy();
  cluster.mutable_daemon()->RemoveLast();
  coordinator_.SetCluster(cluster);
  EXPECT_EQ(OnlyFaultWith({At(coordinator_.address())}),
            "daemons: 1 servers and 0 workers are there");
}

TEST_F(DoctorTest, ACallThatIsRefused) {
  coordinator_.FailNext(1, grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "not yours"));
  EXPECT_THAT(OnlyFaultWith({At(coordinator_.address())}), HasSubstr("not yours"));
}

TEST_F(DoctorTest, ACertificateWithTheKeyOfAnother) {
  ASSERT_EQ(Run({"certs", "init", absl::StrCat("--out=", directory_, "/certs")}), 0) << err();
  EXPECT_TRUE(FaultsWith(Certs("client.crt", "client.key")).empty()) << out();
  EXPECT_THAT(OnlyFaultWith(Certs("client.crt", "worker.key")),
              HasSubstr("the key does not belong to the certificate"));
}

TEST_F(DoctorTest, AKeyThatOthersCanRead) {
  ASSERT_EQ(Run({"certs", "init", absl::StrCat("--out=", directory_, "/certs")}), 0) << err();
  chmod(absl::StrCat(directory_, "/certs/client.key").c_str(), 0644);
  EXPECT_THAT(OnlyFaultWith(Certs("client.crt", "client.key")), HasSubstr("client.key"));
}

TEST_F(DoctorTest, FoldersThatAreMissing) {
  EXPECT_THAT(OnlyFaultWith({"--local", "--state_dir=/no/such/state"}),
              HasSubstr("state_dir /no/such/state: cannot be reached"));
  EXPECT_THAT(OnlyFaultWith({"--local", "--data_root=/no/such/data"}),
              HasSubstr("data_root /no/such/data: cannot be reached"));
}

TEST_F(DoctorTest, AGpuThatIsNotThere) {
  EXPECT_THAT(OnlyFaultWith({"--local", "--backend=cuda", "--device=1000"}),
              HasSubstr("gpu 1000: "));
}

TEST_F(DoctorTest, AJobThatNeedsMoreThanTheMachineHas) {
  const std::string file = WriteFile("job.textproto", R"(
name: "wide"
model {
  input_shape: [65536]
  block { layer { linear { out_features: 4194304 } } layer { linear { out_features: 2 } } }
}
loss { softmax_cross_entropy {} }
data { synthetic { train_samples: 8 test_samples: 8 } }
optimizer { learning_rate: 0.1 sgd {} }
batch { size: 8 }
epochs: 1
)");
  const std::vector<std::string> faults = FaultsWith({file, "--local"});
  ASSERT_FALSE(faults.empty()) << out() << err();
  EXPECT_THAT(faults.front(), HasSubstr("memory: limit"));
}

TEST_F(DoctorTest, AnAddressThatIsNone) {
  EXPECT_EQ(Run({"doctor", "--coordinator=nonsense"}), 2);
  EXPECT_THAT(err(), Not(HasSubstr("FAULT")));
}

}  // namespace
}  // namespace sangam
