#include "common/flags/program.h"

#include <string>

#include "common/flags/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::StartsWith;

TEST(ProgramTest, HelpHasExamplesFlagsAndDetails) {
  FlagSet flags;
  std::string out = "a.txt";
  flags.AddString({"out", "FILE", "Where to write."}, &out);
  ProgramText program;
  program.name = "sangam-x";
  program.summary = "Does x.";
  program.examples = {{"sangam-x --out=b", "writes b"}};
  program.details = {
      "One paragraph which is long enough that it has to be wrapped into two lines of text.",
      "Two."};
  EXPECT_EQ(HelpPage(program, flags),
            "Does x.\n\n"
            "Usage: sangam-x [--FLAG=VALUE]...\n\n"
            "Examples\n  sangam-x --out=b\n      writes b\n\n"
            "Flags\n  --out=FILE\n      Where to write. Default: a.txt.\n\n"
            "One paragraph which is long enough that it has to be wrapped into two lines of\n"
            "text.\n\nTwo.\n");
}

TEST(ProgramTest, VersionNamesTheProtocol) {
  EXPECT_THAT(VersionLine("sangam"), StartsWith("sangam 0."));
  EXPECT_THAT(VersionLine("sangam"), ::testing::HasSubstr("(protocol "));
  EXPECT_THAT(VersionLine("sangam", "CUDA no"), ::testing::EndsWith(", CUDA no)\n"));
}

}  // namespace
}  // namespace sangam
