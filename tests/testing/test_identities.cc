#include "tests/testing/test_identities.h"

#include <memory>
#include <string>

#include "common/rpc/process_credentials.h"
#include "common/security/security_flags.h"
#include "common/security/tls_files.h"
#include "gtest/gtest.h"

namespace sangam {

std::shared_ptr<ProcessCredentials> CallerWith(const TlsFiles& files) {
  SecurityFlags flags;
  flags.tls = files;
  auto made = ProcessCredentials::ForClient(flags);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : std::make_shared<ProcessCredentials>();
}

TestIdentities::TestIdentities(const std::string& role) {
  SecurityFlags flags;
  flags.tls = certificates_.Issue(role);
  auto made = ProcessCredentials::ForDaemon(flags);
  EXPECT_TRUE(made.ok()) << made.status();
  if (made.ok()) SetProcessCredentials(*made);
}

TestIdentities::~TestIdentities() { SetProcessCredentials(std::make_shared<ProcessCredentials>()); }

std::shared_ptr<ProcessCredentials> TestIdentities::As(const std::string& role,
                                                       const std::string& name) {
  return CallerWith(certificates_.Issue(role, name));
}

}  // namespace sangam
