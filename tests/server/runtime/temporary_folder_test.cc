#include "server/runtime/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/testing/subprocess.h"

namespace sangam {
namespace {

TEST(TemporaryFolderTest, ComesEmptyForThisUserAloneAndGoesWithAllThatIsInIt) {
  std::string path;
  {
    absl::StatusOr<TemporaryFolder> made = TemporaryFolder::Create("sangam-test");
    ASSERT_TRUE(made.ok()) << made.status();
    const TemporaryFolder folder = *std::move(made);
    path = folder.path();
    EXPECT_TRUE(std::filesystem::is_empty(path));
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
    std::filesystem::create_directory(path + "/inner");
    testing::WriteFile(path + "/inner/file", "x");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryFolderTest, AMachineWithoutAPlaceIsNamed) {
  setenv("TMPDIR", "/nowhere/at/all", 1);
  EXPECT_FALSE(TemporaryFolder::Create("sangam-test").ok());
  unsetenv("TMPDIR");
}

}  // namespace
}  // namespace sangam
