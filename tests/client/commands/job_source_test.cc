#include "client/commands/job_source.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/files.h"
#include "common/flags/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class JobSourceTest : public ::testing::Test {
 protected:
  JobSourceTest() : path_(absl::StrCat(::testing::TempDir(), "/job_source_test")) {
    EXPECT_TRUE(WriteFileAtomically(path_, "name: \"a\" epochs: 3").ok());
  }
  absl::StatusOr<v1::JobSpec> Read(const std::vector<std::string>& arguments) const {
    JobSource source;
    FlagSet flags;
    source.AddFlags(&flags);
    EXPECT_TRUE(flags.Parse(arguments).ok());
    return source.Read(path_);
  }

  const std::string path_;
};

TEST_F(JobSourceTest, AppliesChangesInOrder) {
  const auto spec = Read({"--set", "steps=5", "--set=name=b", "--set=name=c"});
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->name(), "c");
  EXPECT_EQ(spec->steps(), 5u);
  EXPECT_FALSE(spec->has_epochs());
}

TEST_F(JobSourceTest, AFaultyChangeIsAUsageError) {
  const absl::Status status = Read({"--set=epoch=5"}).status();
  EXPECT_TRUE(IsUsageError(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("--set epoch=5: path 'epoch': JobSpec has no field 'epoch'; did you mean "
                        "'epochs'?"));
  EXPECT_TRUE(IsUsageError(Read({"--set=name=\xff"}).status()));
}

TEST_F(JobSourceTest, AFaultyFileIsNone) {
  EXPECT_TRUE(WriteFileAtomically(path_, "epoch: 3").ok());
  const absl::Status status = Read({}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(IsUsageError(status));
}

}  // namespace
}  // namespace sangam
