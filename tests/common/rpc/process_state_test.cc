#include "common/rpc/process_state.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(ProcessStateTest, CountsWhatTheProcessHas) {
  EXPECT_THAT(
      DescribeProcess(),
      ::testing::MatchesRegex(absl::StrCat(
          "pid=", getpid(), " rss_bytes=[1-9][0-9]+ threads=[1-9][0-9]* open_files=[0-9]+")));
  const std::string before = DescribeProcess();
  const int file = dup(0);
  EXPECT_NE(DescribeProcess().substr(before.rfind(' ')), before.substr(before.rfind(' ')));
  close(file);
}

}  // namespace
}  // namespace sangam
