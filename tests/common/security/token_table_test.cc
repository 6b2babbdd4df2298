#include "common/security/token_table.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/security/identity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

TEST(TokenTableTest, FindsWhatWasMade) {
  const auto alice = MakeToken({Role::kClient, "alice"}, absl::InfiniteFuture());
  const auto eve = MakeToken({Role::kViewer, "eve@example.org"}, kNow + absl::Seconds(1));
  ASSERT_TRUE(alice.ok() && eve.ok());
  EXPECT_NE(alice->token, eve->token);
  EXPECT_THAT(alice->line, Not(HasSubstr(alice->token.substr(7))));
  const auto table =
      TokenTable::Parse(absl::StrCat("# people\n\n  ", alice->line, "\r\n", eve->line, "\n"));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->size(), 2u);
  EXPECT_EQ(table->Find(alice->token, kNow)->ToString(), "client/alice");
  EXPECT_EQ(table->Find(eve->token, kNow)->ToString(), "viewer/eve@example.org");
  const auto expired = table->Find(eve->token, kNow + absl::Seconds(1));
  EXPECT_EQ(expired.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(expired.status().message()), HasSubstr("expired"));
}

TEST(TokenTableTest, RefusesEverythingElse) {
  const auto alice = MakeToken({Role::kClient, "alice"}, absl::InfiniteFuture());
  ASSERT_TRUE(alice.ok());
  const auto table = TokenTable::Parse(alice->line);
  ASSERT_TRUE(table.ok()) << table.status();
  const std::string& token = alice->token;
  for (const std::string& wrong :
       {std::string(), std::string("x"), token.substr(1), token.substr(0, token.size() - 1),
        token + "0", absl::AsciiStrToUpper(token), alice->line, token + std::string(1, '\0'),
        std::string(1'000'000, 'a')}) {
    const auto found = table->Find(wrong, kNow);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kUnauthenticated);
    EXPECT_THAT(std::string(found.status().message()), Not(HasSubstr("alice")));
  }
}

TEST(TokenTableTest, NamesTheLineThatIsWrong) {
  const std::string digest(64, 'a');
  for (const std::string& line :
       {std::string("alice client"), "alice client " + digest + " 2027-01-01T00:00:00Z more",
        "alice worker " + digest, "alice root " + digest, "al/ice client " + digest,
        "alice client " + digest + "a", "alice client " + std::string(64, 'g'),
        "alice client " + digest + " tomorrow"}) {
    const auto table = TokenTable::Parse(absl::StrCat("# one\n", line, "\n"));
    EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(table.status().message()), HasSubstr("line 2")) << line;
  }
  std::string many;
  for (int i = 0; i < 10'001; ++i) absl::StrAppend(&many, "alice client ", digest, "\n");
  EXPECT_THAT(std::string(TokenTable::Parse(many).status().message()), HasSubstr("10000"));
}

TEST(TokenTableTest, TokensAreForPeople) {
  EXPECT_FALSE(MakeToken({Role::kWorker, "w0"}, absl::InfiniteFuture()).ok());
  EXPECT_FALSE(MakeToken({Role::kClient, ""}, absl::InfiniteFuture()).ok());
  EXPECT_FALSE(MakeToken({Role::kClient, "a b"}, absl::InfiniteFuture()).ok());
}

TEST(TokenTableTest, ParsesTheFileOfATokenAndSaysNothingOfOthers) {
  const auto alice = MakeToken({Role::kClient, "alice"}, absl::InfiniteFuture());
  ASSERT_TRUE(alice.ok());
  EXPECT_EQ(ParseToken(absl::StrCat(" ", alice->token, "\n")).value(), alice->token);
  for (const std::string& wrong : {std::string(), std::string("hunter2"), alice->token + "x",
                                   alice->token + "\n" + alice->token, alice->line}) {
    const auto parsed = ParseToken(wrong);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(parsed.status().message()), Not(HasSubstr("hunter2")));
  }
}

}  // namespace
}  // namespace sangam
