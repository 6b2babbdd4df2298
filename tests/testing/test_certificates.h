#ifndef SANGAM_TESTS_TESTING_TEST_CERTIFICATES_H_
#define SANGAM_TESTS_TESTING_TEST_CERTIFICATES_H_

#include <string>

#include "absl/time/time.h"
#include "client/certificate_authority.h"
#include "common/security/tls_files.h"

namespace sangam {

// An authority with a folder, for tests.
class TestCertificates {
 public:
  // In a new folder below the test's temporary one.
  explicit TestCertificates(const std::string& trust_domain = "sangam");

  // Makes a certificate that is valid from `begin` to `end` from now, and writes its files.
  TlsFiles Issue(const std::string& role, const std::string& name = "",
                 absl::Duration begin = -absl::Hours(1), absl::Duration end = absl::Hours(24));
  // As Issue, over the files of an earlier one.
  void IssueInto(const TlsFiles& files, const std::string& role, const std::string& name = "");

  // A key pair that is written nowhere.
  KeyPair Make(const std::string& role, const std::string& name = "",
               absl::Duration begin = -absl::Hours(1), absl::Duration end = absl::Hours(24)) const;

  const std::string& folder() const { return folder_; }
  const std::string& authority_file() const { return authority_file_; }
  const KeyPair& authority() const { return authority_; }

 private:
  const std::string trust_domain_;
  std::string folder_;
  std::string authority_file_;
  KeyPair authority_;
  int issued_ = 0;
};

// Writes the file in place, with these rights.
void WriteTestFile(const std::string& path, const std::string& content, int mode = 0600);

}  // namespace sangam

#endif  // SANGAM_TESTS_TESTING_TEST_CERTIFICATES_H_
