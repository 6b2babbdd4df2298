#include "client/commands/manual.h"

#include <memory>
#include <string>
#include <vector>

#include "client/commands/cancel.h"
#include "client/commands/command.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

TEST(ManualTest, VerbsHaveFlagsAndExamples) {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeCancelCommand());
  const std::string page = Manual(commands, Environment());
  EXPECT_THAT(page, HasSubstr(".SS \"cancel JOB\"\n.PP\nEnd a job.\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n\\fB\\-\\-reason\\fR=\\fITEXT\\fR\nKept with the job. "));
  EXPECT_THAT(page, HasSubstr("\nsangam cancel 12 \\-\\-reason=\\(aqwrong learning rate\\(aq\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS\n"));
}

}  // namespace
}  // namespace sangam
