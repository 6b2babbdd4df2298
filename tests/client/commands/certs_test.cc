#include "client/commands/certs.h"

#include <sys/stat.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands/command_fixture.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class CertsTest : public CommandFixture {
 protected:
  std::string In(const std::string& file) const { return absl::StrCat(folder_, "/", file); }
  static unsigned ModeOf(const std::string& path) {
    struct stat facts = {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 07777;
  }

  const std::string folder_ = absl::StrCat(directory_, "/made/certs");
  const std::string out_flag_ = absl::StrCat("--out=", folder_);
};

TEST_F(CertsTest, InitMakesAnAuthorityAndEveryRole) {
  ASSERT_EQ(Run({"certs", "init", out_flag_}), 0) << err();
  for (const char* const role :
       {"ca", "coordinator", "server", "worker", "client", "viewer", "admin"}) {
    EXPECT_THAT(*ReadFile(In(absl::StrCat(role, ".crt")), 100'000), HasSubstr("BEGIN CERTIFICATE"));
    EXPECT_EQ(ModeOf(In(absl::StrCat(role, ".key"))), 0600u) << role;
  }
  EXPECT_THAT(out(), HasSubstr("worker.crt  spiffe://sangam/role/worker\n"));
}

TEST_F(CertsTest, NothingIsOverwritten) {
  ASSERT_EQ(Run({"certs", "init", out_flag_}), 0) << err();
  const std::string before = *ReadFile(In("ca.key"), 100'000);
  EXPECT_EQ(Run({"certs", "init", out_flag_}), 2);
  EXPECT_THAT(err(), HasSubstr("ca.crt: exists; nothing is overwritten"));
  EXPECT_EQ(Run({"certs", "new", "worker", out_flag_}), 2);
  EXPECT_EQ(*ReadFile(In("ca.key"), 100'000), before);
}

TEST_F(CertsTest, NewIsOfTheSameTrustDomain) {
  ASSERT_EQ(Run({"certs", "init", out_flag_, "--trust_domain=lab"}), 0) << err();
  ASSERT_EQ(Run({"certs", "new", "worker", "w1", out_flag_}), 0) << err();
  EXPECT_EQ(out(), absl::StrCat(In("worker-w1.crt"), "  spiffe://lab/role/worker/w1\n"));
  EXPECT_EQ(ModeOf(In("worker-w1.key")), 0600u);
}

TEST_F(CertsTest, SaysWhatIsWrong) {
  EXPECT_EQ(Run({"certs", "renew"}), 2);
  EXPECT_THAT(err(), HasSubstr("found 'renew', expected init or new"));
  EXPECT_EQ(Run({"certs", "init", "worker"}), 2);
  EXPECT_EQ(Run({"certs", "new", out_flag_}), 2);
  EXPECT_THAT(err(), HasSubstr("ROLE is missing"));
  EXPECT_EQ(Run({"certs", "new", "worker", out_flag_}), 2);
  EXPECT_THAT(err(), HasSubstr("ca.crt"));
  EXPECT_THAT(err(), HasSubstr("'sangam certs init --out="));
  EXPECT_EQ(Run({"certs", "init", out_flag_, "--days=0"}), 2);
}

}  // namespace
}  // namespace sangam
