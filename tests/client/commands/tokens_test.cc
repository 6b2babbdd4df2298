#include "client/commands/tokens.h"

#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/files.h"
#include "common/security/token_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands/command_fixture.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TokensTest : public CommandFixture {};

TEST_F(TokensTest, PrintsTheTokenAndItsLine) {
  ASSERT_EQ(Run({"tokens", "new", "--name=alice"}), 0) << err();
  const std::vector<std::string> lines = absl::StrSplit(out(), '\n');
  ASSERT_GE(lines.size(), 4u);
  const auto token = ParseToken(lines[1]);
  ASSERT_TRUE(token.ok()) << token.status();
  const auto table = TokenTable::Parse(lines[3]);
  ASSERT_TRUE(table.ok()) << table.status();
  const auto found = table->Find(*token, absl::UnixEpoch());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->ToString(), "client/alice");
  EXPECT_FALSE(table->Find(*token, absl::InfiniteFuture()).ok()) << "it expires";
}

TEST_F(TokensTest, WritesTheTokenForItsOwnerAlone) {
  const std::string file = absl::StrCat(directory_, "/alice.token");
  ASSERT_EQ(Run({"tokens", "new", "--name=alice", "--role=viewer", "--expires=1h",
                 absl::StrCat("--out=", file)}),
            0)
      << err();
  struct stat facts = {};
  ASSERT_EQ(stat(file.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  const auto token = ParseToken(*ReadFile(file, 1000));
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_THAT(out(), Not(HasSubstr(*token)));
  EXPECT_THAT(out(), HasSubstr("alice viewer "));
  EXPECT_TRUE(TokenTable::Parse(out()).ok());
}

TEST_F(TokensTest, SaysWhatIsWrong) {
  EXPECT_EQ(Run({"tokens", "old"}), 2);
  EXPECT_THAT(err(), HasSubstr("expected new"));
  EXPECT_EQ(Run({"tokens", "new"}), 2);
  EXPECT_THAT(err(), HasSubstr("--name"));
  EXPECT_EQ(Run({"tokens", "new", "--name=a", "--role=worker"}), 2);
}

}  // namespace
}  // namespace sangam
