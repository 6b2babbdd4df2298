#include "common/security/security_flags.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/flags/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

std::string Daemon(const std::vector<std::string>& arguments) {
  SecurityFlags flags;
  FlagSet set;
  flags.AddServerFlags(&set);
  const auto parsed = set.Parse(arguments);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return std::string(flags.CheckDaemon().message());
}

std::string Client(const std::vector<std::string>& arguments) {
  SecurityFlags flags;
  FlagSet set;
  flags.AddClientFlags(&set);
  const auto parsed = set.Parse(arguments);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return std::string(flags.CheckClient().message());
}

TEST(SecurityFlagsTest, DaemonsHaveAllThreeFilesOrNone) {
  EXPECT_EQ(Daemon({}), "");
  EXPECT_EQ(Daemon({"--tls_cert=a", "--tls_key=b", "--tls_ca=c", "--tokens=t"}), "");
  EXPECT_THAT(Daemon({"--tls_cert=a", "--tls_key=b"}), HasSubstr("all three or none"));
  EXPECT_THAT(Daemon({"--tls_ca=c"}), HasSubstr("all three or none"));
  EXPECT_THAT(Daemon({"--tokens=t"}), HasSubstr("plain text"));
  EXPECT_THAT(Daemon({"--trust_domain=A/b"}), HasSubstr("--trust_domain"));
}

TEST(SecurityFlagsTest, ClientsHaveACertificateOrATokenOrNothing) {
  EXPECT_EQ(Client({}), "");
  EXPECT_EQ(Client({"--tls_cert=a", "--tls_key=b", "--tls_ca=c"}), "");
  EXPECT_EQ(Client({"--tls_ca=c", "--token_file=t"}), "");
  EXPECT_THAT(Client({"--token_file=t"}), HasSubstr("over TLS only"));
  EXPECT_THAT(Client({"--tls_cert=a", "--tls_ca=c"}), HasSubstr("both or none"));
  EXPECT_THAT(Client({"--tls_cert=a", "--tls_key=b"}), HasSubstr("--tls_ca"));
  EXPECT_THAT(Client({"--tls_ca=c"}), HasSubstr("--token_file"));
  EXPECT_THAT(Client({"--tls_cert=a", "--tls_key=b", "--tls_ca=c", "--token_file=t"}),
              HasSubstr("one of them"));
}

}  // namespace
}  // namespace sangam
