#include "client/commands/completion.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands/command_fixture.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class CompletionTest : public CommandFixture {};

TEST_F(CompletionTest, EveryShellLearnsEveryVerb) {
  EXPECT_EQ(Run({"completion", "bash"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("complete -F _sangam sangam\n"));
  EXPECT_THAT(out(), HasSubstr(" config completion "));
  EXPECT_THAT(out(), HasSubstr("COMPREPLY=($(compgen -W 'list verify'"));
  EXPECT_EQ(Run({"completion", "zsh"}), 0);
  EXPECT_THAT(out(), HasSubstr("'--output=[A table for people, or JSON for programs]"));
  EXPECT_EQ(Run({"completion", "fish"}), 0);
  EXPECT_THAT(out(), HasSubstr("__sangam_verb_is list' -l output -x -a 'table json'"));
}

TEST_F(CompletionTest, OtherShellsAreUnknown) {
  EXPECT_EQ(Run({"completion", "bsh"}), 2);
  EXPECT_THAT(err(), HasSubstr("unknown shell 'bsh', expected bash, zsh or fish; did you mean"));
}

}  // namespace
}  // namespace sangam
