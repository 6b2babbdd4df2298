#include "tests/testing/test_certificates.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/certificate_authority.h"
#include "common/security/tls_files.h"
#include "gtest/gtest.h"

namespace sangam {

void WriteTestFile(const std::string& path, const std::string& content, int mode) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  ASSERT_EQ(chmod(path.c_str(), static_cast<mode_t>(mode)), 0) << path;
}

TestCertificates::TestCertificates(const std::string& trust_domain) : trust_domain_(trust_domain) {
  folder_ = absl::StrCat(testing::TempDir(), "/certificates-XXXXXX");
  EXPECT_NE(mkdtemp(folder_.data()), nullptr) << folder_;
  const absl::Time now = absl::Now();
  absl::StatusOr<KeyPair> authority =
      MakeAuthority(trust_domain_, now - absl::Hours(48), now + absl::Hours(48));
  EXPECT_TRUE(authority.ok()) << authority.status();
  authority_ = *authority;
  authority_file_ = absl::StrCat(folder_, "/ca.crt");
  WriteTestFile(authority_file_, authority_.certificate);
}

KeyPair TestCertificates::Make(const std::string& role, const std::string& name,
                               absl::Duration begin, absl::Duration end) const {
  CertificateRequest request;
  request.trust_domain = trust_domain_;
  request.role = role;
  request.name = name;
  request.not_before = absl::Now() + begin;
  request.not_after = absl::Now() + end;
  absl::StatusOr<KeyPair> made = IssueCertificate(authority_, request);
  EXPECT_TRUE(made.ok()) << made.status();
  return *made;
}

TlsFiles TestCertificates::Issue(const std::string& role, const std::string& name,
                                 absl::Duration begin, absl::Duration end) {
  const std::string stem = absl::StrCat(folder_, "/", role, "-", ++issued_);
  const TlsFiles files = {stem + ".crt", stem + ".key", authority_file_};
  const KeyPair made = Make(role, name, begin, end);
  WriteTestFile(files.key, made.key);
  WriteTestFile(files.certificate, made.certificate);
  return files;
}

void TestCertificates::IssueInto(const TlsFiles& files, const std::string& role,
                                 const std::string& name) {
  const KeyPair made = Make(role, name);
  WriteTestFile(files.key, made.key);
  WriteTestFile(files.certificate, made.certificate);
}

}  // namespace sangam
