#include "common/data/data_root.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class DataRootTest : public ::testing::Test {
 protected:
  DataRootTest() {
    base_ = std::filesystem::canonical(::testing::TempDir()) /
            ("data_root_test_" + std::to_string(getpid()));
    std::filesystem::remove_all(base_);
    std::filesystem::create_directories(base_ / "root" / "deep");
    std::ofstream(base_ / "root" / "in.gz") << "in";
    std::ofstream(base_ / "root" / "deep" / "er") << "deeper";
    std::ofstream(base_ / "secret") << "secret";
    std::ofstream(base_ / "rootlike") << "no";
    std::filesystem::create_symlink("in.gz", base_ / "root" / "good_link");
    std::filesystem::create_symlink("../secret", base_ / "root" / "bad_link");
    std::filesystem::create_symlink("..", base_ / "root" / "bad_folder");
    std::filesystem::create_symlink(base_ / "root", base_ / "linked_root");
  }
  ~DataRootTest() override { std::filesystem::remove_all(base_); }

  std::string Root() const { return (base_ / "root").string(); }

  absl::StatusOr<std::string> Resolve(absl::string_view path) {
    auto root = DataRoot::Create(Root());
    EXPECT_TRUE(root.ok()) << root.status();
    return root->Resolve(path);
  }

  void ExpectOutside(absl::string_view path) {
    const auto found = Resolve(path);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(path));
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(Root()));
  }

  std::filesystem::path base_;
};

TEST_F(DataRootTest, FindsFilesBelowTheRoot) {
  EXPECT_EQ(Resolve("in.gz").value(), Root() + "/in.gz");
  EXPECT_EQ(Resolve("deep/er").value(), Root() + "/deep/er");
  EXPECT_EQ(Resolve("./deep/../in.gz").value(), Root() + "/in.gz");
}

TEST_F(DataRootTest, FollowsLinksThatStayInside) {
  EXPECT_EQ(Resolve("good_link").value(), Root() + "/in.gz");
}

TEST_F(DataRootTest, AcceptsARootThatIsALink) {
  auto root = DataRoot::Create((base_ / "linked_root").string());
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->path(), Root());
  EXPECT_EQ(root->Resolve("in.gz").value(), Root() + "/in.gz");
}

TEST_F(DataRootTest, RefusesLinksThatLeadOut) {
  ExpectOutside("bad_link");
  ExpectOutside("bad_folder/secret");
  ExpectOutside("bad_folder/rootlike");
}

TEST_F(DataRootTest, RefusesDotsThatLeadOutWhetherOrNotSomethingIsThere) {
  ExpectOutside("../secret");
  ExpectOutside("../nothing_here");
  ExpectOutside("deep/../../secret");
  ExpectOutside("..");
}

TEST_F(DataRootTest, RefusesAbsolutePathsEvenInside) {
  ExpectOutside(Root() + "/in.gz");
  ExpectOutside("/etc/passwd");
}

TEST_F(DataRootTest, RefusesEmptyPathsAndZeroBytes) {
  EXPECT_EQ(Resolve("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Resolve(absl::string_view("in.gz\0x", 7)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(DataRootTest, NamesPathAndRootWhenAFileIsMissing) {
  const auto found = Resolve("deep/missing");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("deep/missing"));
  EXPECT_THAT(std::string(found.status().message()), HasSubstr(Root()));
  // A file where a folder is expected.
  EXPECT_EQ(Resolve("in.gz/x").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DataRootTest, NeedsAnExistingFolder) {
  EXPECT_EQ(DataRoot::Create(Root() + "/nowhere").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(DataRoot::Create(Root() + "/in.gz").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(DataRootTest, TheRootMayBeTheWholeMachine) {
  auto root = DataRoot::Create("/");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_TRUE(root->Resolve(Root().substr(1) + "/in.gz").ok());
}

}  // namespace
}  // namespace sangam
