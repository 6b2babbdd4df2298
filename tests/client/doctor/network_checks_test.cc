#include "client/doctor/network_checks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/client/doctor/one_answer.h"

namespace sangam {
namespace {

using ::sangam::testing::ClosedPort;
using ::sangam::testing::OneAnswer;
using ::testing::HasSubstr;

constexpr absl::Duration kShort = absl::Milliseconds(300);
const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
const std::string kSettings("\0\0\0\4\0\0\0\0\0", 9);
const std::string kServerHello("\x16\x03\x03\0\x7a\2\0\0\x76", 9);
const std::string kAlert("\x15\x03\x01\0\2\2\x46", 7);

Answerer Ask(const std::string& answer) {
  const OneAnswer peer(answer);
  return ProbePort("127.0.0.1", peer.port(), kShort).answerer;
}

v1::Cluster Healthy() {
  v1::Cluster cluster;
  cluster.set_version(kVersion);
  cluster.set_protocol_version(kProtocolVersion);
  cluster.mutable_time()->set_seconds(absl::ToUnixSeconds(kNow));
  for (const char* const role : {"server", "worker"}) {
    v1::DaemonStatus* const daemon = cluster.add_daemon();
    daemon->set_role(role);
    daemon->set_name(absl::StrCat(role, "-0"));
    daemon->set_alive(true);
  }
  return cluster;
}

Findings Faults(const v1::Cluster& cluster) {
  Findings faults;
  for (const Finding& finding : CheckCluster(cluster, kNow, kNow)) {
    if (finding.verdict != Verdict::kGood) faults.push_back(finding);
  }
  return faults;
}

TEST(NetworkChecksTest, TellsWhoAnswersByTheFirstBytes) {
  EXPECT_EQ(Ask(kSettings), Answerer::kPlainHttp2);
  EXPECT_EQ(Ask(kAlert), Answerer::kTls);
  EXPECT_EQ(Ask("HTTP/1.1 400 Bad Request\r\n\r\n"), Answerer::kOther);
  EXPECT_EQ(Ask(""), Answerer::kSilent);
  // As gRPC does with TLS.
  const OneAnswer strict(kServerHello, kServerHello[0]);
  EXPECT_EQ(ProbePort("127.0.0.1", strict.port(), kShort).answerer, Answerer::kTls);
  const Probe probe = ProbePort("127.0.0.1", ClosedPort(), kShort);
  EXPECT_EQ(probe.answerer, Answerer::kNobody);
  EXPECT_EQ(probe.reason, "Connection refused");
}

TEST(NetworkChecksTest, ThePortMustSpeakAsTheClientDoes) {
  const auto verdict = [](Answerer answerer, bool with_tls) {
    return CheckPort("c:1", {answerer, ""}, with_tls).verdict;
  };
  EXPECT_EQ(verdict(Answerer::kPlainHttp2, false), Verdict::kGood);
  EXPECT_EQ(verdict(Answerer::kTls, true), Verdict::kGood);
  EXPECT_EQ(verdict(Answerer::kPlainHttp2, true), Verdict::kFault);
  EXPECT_EQ(verdict(Answerer::kTls, false), Verdict::kFault);
  EXPECT_EQ(verdict(Answerer::kSilent, true), Verdict::kFault);
}

TEST(NetworkChecksTest, Names) {
  EXPECT_EQ(CheckName("127.0.0.1").verdict, Verdict::kGood);
  const Finding finding = CheckName("no-such-host.invalid");
  EXPECT_EQ(finding.verdict, Verdict::kFault);
  EXPECT_THAT(finding.found, HasSubstr("does not resolve"));
}

TEST(NetworkChecksTest, AHealthyClusterHasNoFaults) { EXPECT_TRUE(Faults(Healthy()).empty()); }

TEST(NetworkChecksTest, OtherVersions) {
  v1::Cluster cluster = Healthy();
  cluster.set_version("9.9.9");
  ASSERT_EQ(Faults(cluster).size(), 1u);
  EXPECT_EQ(Faults(cluster)[0].verdict, Verdict::kWarning);
  cluster.set_protocol_version(kProtocolVersion + 1);
  ASSERT_EQ(Faults(cluster).size(), 1u);
  EXPECT_EQ(Faults(cluster)[0].verdict, Verdict::kFault);
  EXPECT_THAT(Faults(cluster)[0].found,
              HasSubstr(absl::StrCat("speaks protocol ", kProtocolVersion + 1)));
  cluster.clear_version();
  EXPECT_THAT(Faults(cluster)[0].found, HasSubstr("older"));
}

TEST(NetworkChecksTest, ClocksThatDiffer) {
  v1::Cluster cluster = Healthy();
  cluster.mutable_time()->set_seconds(absl::ToUnixSeconds(kNow) + 60);
  ASSERT_EQ(Faults(cluster).size(), 1u);
  EXPECT_EQ(Faults(cluster)[0].verdict, Verdict::kWarning);
  EXPECT_EQ(Faults(cluster)[0].found, "is 1m00s ahead of this machine's");
  cluster.mutable_time()->set_seconds(absl::ToUnixSeconds(kNow) - 7200);
  EXPECT_EQ(Faults(cluster)[0].verdict, Verdict::kFault);
  EXPECT_EQ(Faults(cluster)[0].found, "is 2h00m behind this machine's");
  // A slow answer tells nothing of the clock.
  const Findings findings = CheckCluster(cluster, kNow - absl::Hours(4), kNow);
  EXPECT_EQ(findings[1].verdict, Verdict::kGood);
}

TEST(NetworkChecksTest, DaemonsThatAreMissingLostOrBroken) {
  v1::Cluster cluster = Healthy();
  cluster.mutable_daemon(1)->set_fault("lost its GPU");
  ASSERT_EQ(Faults(cluster).size(), 1u);
  EXPECT_EQ(Faults(cluster)[0].found, "lost its GPU");
  cluster.mutable_daemon(1)->set_alive(false);
  ASSERT_EQ(Faults(cluster).size(), 2u);
  EXPECT_EQ(Faults(cluster)[0].found, "1 servers and 0 workers are there");
  EXPECT_EQ(Faults(cluster)[1].found, "worker worker-0");
}

}  // namespace
}  // namespace sangam
