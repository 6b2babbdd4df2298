#include "client/commands/connection.h"

#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "common/flags/flags.h"
#include "common/rpc/process_credentials.h"
#include "common/security/tls_files.h"
#include "gtest/gtest.h"
#include "tests/client/fake_console.h"
#include "tests/testing/test_certificates.h"

namespace sangam {
namespace {

TEST(ConnectionTest, FlagsGoBeforeTheEnvironment) {
  Environment environment;
  environment.coordinator = "from-environment:1";
  Connection connection;
  FlagSet flags;
  connection.AddFlags(environment, &flags);
  connection.AddOutputFlag(&flags);
  EXPECT_NE(flags.Help().find("Default: from-environment:1."), std::string::npos);
  EXPECT_FALSE(connection.json());
  EXPECT_EQ(connection.timeout(), absl::Seconds(10));
  ASSERT_TRUE(flags.Parse({"--output=json", "--timeout=2s", "--coordinator=bad"}).ok());
  EXPECT_TRUE(connection.json());
  EXPECT_EQ(connection.timeout(), absl::Seconds(2));
  EXPECT_TRUE(IsUsageError(connection.Connect(environment).status()));
}

// They are flags: neither a job that is not found nor a right that is missing.
TEST(ConnectionTest, CredentialsThatCannotBeLoadedAreUsageErrors) {
  TestCertificates certificates;
  const TlsFiles good = certificates.Issue("client", "alice");
  const TlsFiles open = certificates.Issue("client", "alice");
  ASSERT_EQ(chmod(open.key.c_str(), 0644), 0);
  const auto connect = [](const TlsFiles& files, const std::string& token) {
    const Environment environment;
    Connection connection;
    FlagSet flags;
    connection.AddFlags(environment, &flags);
    std::vector<std::string> words = {"--tls_ca=" + files.authority};
    if (token.empty()) {
      words.insert(words.end(), {"--tls_cert=" + files.certificate, "--tls_key=" + files.key});
    } else {
      words.push_back("--token_file=" + token);
    }
    EXPECT_TRUE(flags.Parse(words).ok());
    return connection.Connect(environment).status();
  };
  TlsFiles no_authority = good;
  no_authority.authority += ".missing";
  TlsFiles no_key = good;
  no_key.key += ".missing";
  TlsFiles other_key = good;
  other_key.key = certificates.Issue("client", "bob").key;
  for (const TlsFiles& wrong : {no_authority, no_key, open, other_key}) {
    const absl::Status status = connect(wrong, "");
    EXPECT_TRUE(IsUsageError(status)) << status;
  }
  EXPECT_TRUE(IsUsageError(connect(good, good.key))) << "not a token";
  EXPECT_TRUE(IsUsageError(connect(good, "/none"))) << "no file";
  EXPECT_TRUE(connect(good, "").ok());
  SetProcessCredentials(std::make_shared<ProcessCredentials>());
}

TEST(ConnectionTest, ItsClientStopsWhenTheUserInterrupts) {
  FakeConsole console;
  Environment environment;
  environment.console = &console;
  environment.coordinator = "127.0.0.1:1";
  environment.interrupts = [] { return 1; };
  Connection connection;
  FlagSet flags;
  connection.AddFlags(environment, &flags);
  const auto client = connection.Connect(environment);
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*client)->Get("1").status(), absl::CancelledError("interrupted"));
}

}  // namespace
}  // namespace sangam
