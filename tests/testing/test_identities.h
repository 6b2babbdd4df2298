#ifndef SANGAM_TESTS_TESTING_TEST_IDENTITIES_H_
#define SANGAM_TESTS_TESTING_TEST_IDENTITIES_H_

#include <memory>
#include <string>

#include "common/rpc/process_credentials.h"
#include "common/security/tls_files.h"
#include "tests/testing/test_certificates.h"

namespace sangam {

// Of one who calls with these files. Where they are not good the test has failed.
std::shared_ptr<ProcessCredentials> CallerWith(const TlsFiles& files);

// Makes this process a daemon of a cluster with TLS, as long as it lives, and the credentials of
// those who call it.
class TestIdentities {
 public:
  // As `role`, "coordinator", "server" or "worker". Where that fails the test has failed.
  explicit TestIdentities(const std::string& role);
  ~TestIdentities();
  TestIdentities(const TestIdentities&) = delete;
  TestIdentities& operator=(const TestIdentities&) = delete;

  // With a certificate for `role`, bound to `name` when it has one.
  std::shared_ptr<ProcessCredentials> As(const std::string& role, const std::string& name = "");

 private:
  TestCertificates certificates_;
};

}  // namespace sangam

#endif  // SANGAM_TESTS_TESTING_TEST_IDENTITIES_H_
