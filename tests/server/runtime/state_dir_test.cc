#include "server/runtime/state_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/subprocess.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

TEST(StateDirTest, MakesTheFolderWithItsParents) {
  const std::string path = absl::StrCat(testing::FreshFolder("state-dir"), "/a/b");
  const auto dir = StateDir::Open(path, "c1");
  ASSERT_TRUE(dir.ok()) << dir.status();
  EXPECT_EQ((*dir)->path(), path);
  EXPECT_EQ((*dir)->database(), path + "/sangam.db");
  struct stat status;
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
}

TEST(StateDirTest, ASecondOneIsRefusedAndToldWhoHasIt) {
  const std::string path = testing::FreshFolder("state-dir-twice");
  {
    const auto first = StateDir::Open(path, "coordinator c1");
    ASSERT_TRUE(first.ok()) << first.status();
    const absl::Status second = StateDir::Open(path, "c2").status();
    EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(second.message()), HasSubstr(path));
    EXPECT_THAT(std::string(second.message()),
                HasSubstr(absl::StrCat("locked by pid ", ::getpid(), " (coordinator c1)")));
  }
  EXPECT_TRUE(StateDir::Open(path, "c2").ok());
}

TEST(StateDirTest, FaultsNameThePath) {
  const std::string folder = testing::FreshFolder("state-dir-faults");
  const std::string file = folder + "/file";
  testing::WriteFile(file, "text");
  const absl::Status no_folder = StateDir::Open(file, "c").status();
  EXPECT_EQ(no_folder.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(no_folder.message()), HasSubstr(file));
  const absl::Status below = StateDir::Open(file + "/below", "c").status();
  EXPECT_EQ(below.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(below.message()), HasSubstr(file));
}

TEST(StateDirTest, AFolderThatMayNotBeWrittenIsRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const std::string folder = testing::FreshFolder("state-dir-read-only");
  ASSERT_EQ(::chmod(folder.c_str(), 0555), 0);
  const absl::Status refused = StateDir::Open(folder, "c").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(folder));
  ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
}

}  // namespace
}  // namespace sangam
