#include "common/flags/man_page.h"

#include <string>

#include "common/flags/flags.h"
#include "common/flags/program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ManPageTest, TextIsShownAsItIs) {
  EXPECT_EQ(ManEscape("a-b \\ 'c' `d` ^~"), "a\\-b \\e \\(aqc\\(aq \\(gad\\(ga \\(ha\\(ti");
  EXPECT_EQ(ManEscape(".x\n.y\n'z"), "\\&.x\n\\&.y\n\\(aqz");
}

TEST(ManPageTest, HasAllSections) {
  FlagSet flags;
  std::string out = "a.txt";
  bool quiet = false;
  bool secret = false;
  flags.AddString({"out", "FILE", "Where to write.", 'o'}, &out);
  flags.AddSwitch({"quiet", "", "No words."}, &quiet);
  FlagSet::Text hidden = {"secret", "", "Nothing."};
  hidden.hidden = true;
  flags.AddSwitch(hidden, &secret);
  ProgramText program;
  program.name = "sangam-x";
  program.summary = "Does x.";
  program.examples = {{"sangam-x --out=b", "writes b"}};
  program.details = {"More of it."};
  const std::string page = ManPage(program, flags);
  EXPECT_THAT(page, StartsWith(".TH SANGAM-X 8 \"\" \"Sangam 0."));
  for (const std::string section : {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT",
                                    "FILES", "EXAMPLES", "SEE ALSO"}) {
    EXPECT_THAT(page, HasSubstr("\n.SH " + section + "\n"));
  }
  EXPECT_THAT(page, HasSubstr("sangam\\-x \\- Does x\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n\\fB\\-\\-out\\fR=\\fIFILE\\fR, \\fB\\-o\\fR\n"
                              "Where to write. Default: a.txt.\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n\\fB\\-\\-quiet\\fR\nNo words.\n"));
  EXPECT_THAT(page, HasSubstr(".nf\nsangam\\-x \\-\\-out=b\n.fi\n"));
  EXPECT_THAT(page, Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace sangam
