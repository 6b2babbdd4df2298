#include "common/flags/build_label.h"

#include <string>

#include "common/flags/program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

// Tests are not stamped, whatever the build is: a label must not make them run again.
TEST(BuildLabelTest, TestsAndOrdinaryBuildsNameNoCommit) {
  EXPECT_EQ(std::string(kBuildLabel), "redacted");
  EXPECT_THAT(VersionLine("sangam"), ::testing::Not(::testing::HasSubstr("commit")));
}

}  // namespace
}  // namespace sangam
