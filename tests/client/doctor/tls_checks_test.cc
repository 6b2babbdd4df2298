#include "client/doctor/tls_checks.h"

#include <sys/stat.h>

#include <string>

#include "absl/time/time.h"
#include "client/certificate_authority.h"
#include "client/files.h"
#include "common/security/security_flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/script.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kDay = absl::Hours(24);

class TlsChecksTest : public ::testing::Test {
 protected:
  TlsChecksTest()
      : folder_(FreshDirectory(::testing::UnitTest::GetInstance()->current_test_info()->name())),
        authority_(*MakeAuthority("sangam", kNow - kDay, kNow + 400 * kDay)) {
    flags_.tls = {folder_ + "/c.crt", folder_ + "/c.key", folder_ + "/ca.crt"};
    Write(authority_, Client(kNow + 100 * kDay));
  }

  KeyPair Client(absl::Time not_after) const {
    CertificateRequest request;
    request.trust_domain = "sangam";
    request.role = "client";
    request.name = "alice";
    request.not_before = kNow - kDay;
    request.not_after = not_after;
    return *IssueCertificate(authority_, request);
  }
  void Write(const KeyPair& authority, const KeyPair& own) const {
    EXPECT_TRUE(WriteFileAtomically(flags_.tls.authority, authority.certificate).ok());
    EXPECT_TRUE(WriteFileAtomically(flags_.tls.certificate, own.certificate).ok());
    EXPECT_TRUE(WritePrivateFile(flags_.tls.key, own.key).ok());
  }
  Finding Check() const { return CheckCredentials(flags_, kNow).front(); }

  const std::string folder_;
  const KeyPair authority_;
  SecurityFlags flags_;
};

TEST_F(TlsChecksTest, GoodOnesSayWhoseTheyAreAndHowLong) {
  EXPECT_EQ(Check().verdict, Verdict::kGood);
  EXPECT_EQ(Check().found, "is of client/alice and good for 100d00h");
}

TEST_F(TlsChecksTest, NoneAreSkipped) {
  EXPECT_EQ(CheckCredentials(SecurityFlags(), kNow).front().verdict, Verdict::kSkipped);
}

TEST_F(TlsChecksTest, OnesThatEndSoonAreAWarning) {
  Write(authority_, Client(kNow + 3 * kDay));
  EXPECT_EQ(Check().verdict, Verdict::kWarning);
}

TEST_F(TlsChecksTest, ExpiredOnes) {
  Write(authority_, Client(kNow - absl::Hours(1)));
  EXPECT_EQ(Check().verdict, Verdict::kFault);
  EXPECT_THAT(Check().found, HasSubstr("has expired"));
}

TEST_F(TlsChecksTest, AnotherKey) {
  KeyPair mixed = Client(kNow + 100 * kDay);
  mixed.key = Client(kNow + 100 * kDay).key;
  Write(authority_, mixed);
  EXPECT_THAT(Check().found, HasSubstr("does not belong to the certificate"));
}

TEST_F(TlsChecksTest, AnotherAuthority) {
  Write(*MakeAuthority("sangam", kNow - kDay, kNow + kDay), Client(kNow + 100 * kDay));
  EXPECT_THAT(Check().found, HasSubstr("does not lead to"));
}

TEST_F(TlsChecksTest, AKeyThatOthersCanRead) {
  chmod(flags_.tls.key.c_str(), 0644);
  EXPECT_EQ(Check().verdict, Verdict::kFault);
  EXPECT_THAT(Check().fix, HasSubstr("chmod 600"));
}

TEST_F(TlsChecksTest, MissingFilesAndTokens) {
  flags_.token_file = folder_ + "/token";
  ASSERT_TRUE(WritePrivateFile(flags_.token_file, "nonsense").ok());
  const Findings findings = CheckCredentials(flags_, kNow);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].verdict, Verdict::kFault);
  EXPECT_THAT(findings[1].found, Not(HasSubstr("nonsense")));
  flags_.tls.key = folder_ + "/no.key";
  EXPECT_THAT(Check().found, HasSubstr("no.key"));
}

}  // namespace
}  // namespace sangam
