#include "common/flags/completion.h"

#include <string>
#include <vector>

#include "common/flags/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() {
    flags_.AddString({"out", "FILE", "Where to write: here [or there]. More."}, &text_);
    flags_.AddString({"root", "DIR", "It's a folder."}, &text_);
    flags_.AddSwitch({"wait", "", "Wait."}, &wait_);
    flags_.AddChoice({"output", "", "Form."}, {"table", "json"}, &output_);
    flags_.AddString({"reason", "TEXT", "Why.", 'r'}, &text_);
    verbs_ = {{"run", "Run a job.", "FILE", &flags_},
              {"check", "Check.", "a|b [JOB]", &none_},
              {"set", "Set.", "[c|d] [NAME|FILE]", &none_},
              {"doc", "Doc.", "[FILE]", &none_}};
  }

  FlagSet flags_;
  FlagSet none_;
  std::string text_;
  std::string output_ = "table";
  bool wait_ = false;
  std::vector<CompletedVerb> verbs_;
};

// What bash makes of it is tested with bash itself.
TEST_F(CompletionTest, Bash) {
  const std::string script = BashCompletion("sangam-x", verbs_);
  EXPECT_THAT(script, HasSubstr("compgen -W 'run check set doc help --help --version'"));
  EXPECT_THAT(script, HasSubstr("COMPREPLY=($(compgen -W 'c d' -- \"$cur\"))"));
  EXPECT_THAT(script, HasSubstr("    doc) compopt -o filenames;"));
  EXPECT_THAT(script,
              HasSubstr("run) flags='--out= --root= --wait --output= --reason= --help' ;;"));
  EXPECT_THAT(script,
              HasSubstr("run:--output) COMPREPLY=($(compgen -W 'table json' -- \"$cur\"))"));
  EXPECT_THAT(script, HasSubstr("complete -F _sangam_x sangam-x\n"));
}

TEST_F(CompletionTest, Zsh) {
  const std::string script = ZshCompletion("sangam", verbs_);
  EXPECT_THAT(script, HasSubstr("'--out=[Where to write\\: here \\[or there\\]]:FILE:_files'"));
  EXPECT_THAT(script, HasSubstr("'--root=[It'\\''s a folder]:DIR:_files -/'"));
  EXPECT_THAT(script, HasSubstr("'1:what:(a b)'"));
  EXPECT_THAT(script, HasSubstr("'1:what:(c d)' \\\n        '2:file:_files'"));
  EXPECT_THAT(script, HasSubstr("'1:file:_files'"));
  EXPECT_THAT(script, HasSubstr("'run:Run a job'"));
}

TEST_F(CompletionTest, Fish) {
  const std::string script = FishCompletion("sangam", verbs_);
  EXPECT_THAT(script, HasSubstr("-n __fish_use_subcommand -a run -d 'Run a job'\n"));
  EXPECT_THAT(script, HasSubstr("__sangam_verb_is run' -l output -x -a 'table json' -d 'Form'\n"));
  EXPECT_THAT(script, HasSubstr("__sangam_verb_is run' -l reason -s r -x -d 'Why'\n"));
  EXPECT_THAT(
      script,
      HasSubstr("__sangam_verb_is check; and not __fish_seen_subcommand_from a b' -a 'a b'\n"));
  EXPECT_THAT(script, HasSubstr("__sangam_verb_is set; and __fish_seen_subcommand_from c d' -F\n"));
  EXPECT_THAT(script, HasSubstr("__sangam_verb_is doc' -F\n"));
}

}  // namespace
}  // namespace sangam
