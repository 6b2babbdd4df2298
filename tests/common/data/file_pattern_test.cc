#include "common/data/file_pattern.h"

#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/data/data_root.h"
#include "common/data/input_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/subprocess.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FilePatternTest : public ::testing::Test {
 protected:
  FilePatternTest()
      : base_(std::filesystem::canonical(testing::FreshFolder(absl::StrCat(
            "file_pattern_", ::testing::UnitTest::GetInstance()->current_test_info()->name())))) {
    std::filesystem::create_directories(base_ / "root" / "b1" / "deep");
    std::filesystem::create_directories(base_ / "root" / "b2");
    std::filesystem::create_directories(base_ / "outside");
    for (const char* file :
         {"root/z.txt", "root/a.txt", "root/m.bin", "root/.hidden.txt", "root/b1/x.txt",
          "root/b2/x.txt", "root/b2/y.txt", "root/[odd].txt", "outside/secret.txt"}) {
      testing::WriteFile((base_ / file).string(), "content");
    }
  }

  DataRoot Root() const { return DataRoot::Create((base_ / "root").string()).value(); }
  std::vector<std::string> Names(const std::string& pattern) const {
    const auto found = FindFiles(Root(), pattern, nullptr);
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> names;
    if (!found.ok()) return names;
    for (const NamedFile& file : *found) {
      EXPECT_TRUE(std::filesystem::is_regular_file(file.path)) << file.path;
      names.push_back(file.name);
    }
    return names;
  }
  void ExpectRefused(const std::string& pattern, absl::StatusCode code, const std::string& words) {
    const auto found = FindFiles(Root(), pattern, nullptr);
    EXPECT_EQ(found.status().code(), code) << pattern << ": " << found.status();
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(words));
  }

  const std::filesystem::path base_;
};

TEST_F(FilePatternTest, MatchesWithinANameInTheOrderOfNames) {
  EXPECT_THAT(Names("*.txt"), ElementsAre("[odd].txt", "a.txt", "z.txt"));
  EXPECT_THAT(Names("?.*"), ElementsAre("a.txt", "m.bin", "z.txt"));
  EXPECT_THAT(Names("[a-m].*"), ElementsAre("a.txt", "m.bin"));
  EXPECT_THAT(Names("[!a]*.txt"), ElementsAre("[odd].txt", "z.txt"));
  EXPECT_THAT(Names(".h*"), ElementsAre(".hidden.txt"));
}

TEST_F(FilePatternTest, MatchesFoldersToo) {
  EXPECT_THAT(Names("b?/*.txt"), ElementsAre("b1/x.txt", "b2/x.txt", "b2/y.txt"));
  EXPECT_THAT(Names("*/y.txt"), ElementsAre("b2/y.txt"));
  EXPECT_THAT(Names("b2/[xy].txt"), ElementsAre("b2/x.txt", "b2/y.txt"));
}

TEST_F(FilePatternTest, AFolderIsNoMatch) {
  EXPECT_THAT(Names("b1/*"), ElementsAre("b1/x.txt"));
  ExpectRefused("b?", absl::StatusCode::kNotFound, "found no file that matches");
}

TEST_F(FilePatternTest, APlainNameNamesOneFile) {
  EXPECT_THAT(Names("b1/x.txt"), ElementsAre("b1/x.txt"));
  ExpectRefused("b1/none.txt", absl::StatusCode::kNotFound, "b1/none.txt");
}

TEST_F(FilePatternTest, SaysThatNothingMatches) {
  ExpectRefused("*.md", absl::StatusCode::kNotFound,
                "data path \"*.md\": found no file that matches below data_root");
  ExpectRefused("none/*.txt", absl::StatusCode::kNotFound, "none");
}

TEST_F(FilePatternTest, RefusesPatternsThatLeadOut) {
  ExpectRefused("../outside/*.txt", absl::StatusCode::kInvalidArgument, "leads out");
  ExpectRefused("b1/../../*/secret.txt", absl::StatusCode::kInvalidArgument, "leads out");
  ExpectRefused("/etc/*", absl::StatusCode::kInvalidArgument, "absolute");
  ExpectRefused("", absl::StatusCode::kInvalidArgument, "empty");
  // Not seen before the wildcard is known to be a folder.
  ExpectRefused("b*/../../outside/*.txt", absl::StatusCode::kInvalidArgument, "leads out");
}

TEST_F(FilePatternTest, RefusesLinksThatLeadOut) {
  std::filesystem::create_symlink("../outside/secret.txt", base_ / "root" / "s.lnk");
  ExpectRefused("*.lnk", absl::StatusCode::kInvalidArgument, "leads out");
  std::filesystem::create_symlink("../outside", base_ / "root" / "c1");
  ExpectRefused("c?/*.txt", absl::StatusCode::kInvalidArgument, "leads out");
  ExpectRefused("c1/*.txt", absl::StatusCode::kInvalidArgument, "leads out");
}

TEST_F(FilePatternTest, EndsWhenCancelled) {
  std::atomic<bool> cancelled{false};
  EXPECT_TRUE(FindFiles(Root(), "*/*.txt", &cancelled).ok());
  cancelled = true;
  EXPECT_EQ(FindFiles(Root(), "*/*.txt", &cancelled).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(FilePatternTest, CountsWhatMatchesInAllFoldersTogether) {
  // One file under 257 x 257 names.
  for (int i = 0; i < 257; ++i) {
    std::filesystem::create_symlink(".", base_ / "root" / absl::StrCat("loop", i));
  }
  ExpectRefused("loop*/loop*/a.txt", absl::StatusCode::kInvalidArgument,
                "data path \"loop*/loop*/a.txt\": found more matches than the 65536");
}

TEST_F(FilePatternTest, AFolderThatCannotBeListedIsNoLostLink) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const DataRoot root = Root();
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = FindFiles(root, "b1/*", nullptr).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("data path \"b1\" below data_root"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot list the folder: Too many open"));
}

TEST_F(FilePatternTest, FollowsLinksThatStayInside) {
  std::filesystem::create_symlink("a.txt", base_ / "root" / "l.lnk");
  EXPECT_THAT(Names("*.lnk"), ElementsAre("l.lnk"));
}

}  // namespace
}  // namespace sangam
