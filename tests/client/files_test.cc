#include "client/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(::testing::TempDir(), "/files_test");
    std::filesystem::remove_all(directory_);
    ASSERT_TRUE(MakeDirectories(directory_).ok());
  }

  std::string Path(const std::string& name) const { return absl::StrCat(directory_, "/", name); }
  size_t CountFiles() const {
    const std::filesystem::directory_iterator files(directory_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  std::string directory_;
};

TEST_F(FilesTest, ReadsWhatWasWritten) {
  const std::string bytes("a\0b\n\xff", 5);
  ASSERT_TRUE(WriteFileAtomically(Path("x"), bytes).ok());
  const auto read = ReadFile(Path("x"), 5);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, bytes);
  EXPECT_EQ(CountFiles(), 1u);
}

TEST_F(FilesTest, ReadsNoMoreThanAllowed) {
  ASSERT_TRUE(WriteFileAtomically(Path("x"), std::string(200'000, 'x')).ok());
  EXPECT_TRUE(ReadFile(Path("x"), 200'000).ok());
  const absl::Status status = ReadFile(Path("x"), 199'999).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("longer than 199999 bytes"));
}

TEST_F(FilesTest, ErrorsNameTheFile) {
  const absl::Status missing = ReadFile(Path("missing"), 10).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("missing"));
  EXPECT_THAT(std::string(ReadFile(directory_, 10).status().message()),
              HasSubstr("is a directory, expected a file"));
  EXPECT_THAT(std::string(WriteFileAtomically(Path("no/such/x"), "").message()),
              HasSubstr("no/such/x"));
  EXPECT_THAT(std::string(WriteFileAtomically(directory_, "").message()),
              HasSubstr("is a directory"));
}

TEST_F(FilesTest, TakesTheLastLines) {
  ASSERT_TRUE(WriteFileAtomically(Path("log"), "1\n2\n3\n4\n").ok());
  EXPECT_EQ(TailOfFile(Path("log"), 2), "3\n4");
  EXPECT_EQ(TailOfFile(Path("log"), 9), "1\n2\n3\n4");
  ASSERT_TRUE(WriteFileAtomically(Path("log"), "no end").ok());
  EXPECT_EQ(TailOfFile(Path("log"), 2), "no end");
  ASSERT_TRUE(WriteFileAtomically(Path("log"), "").ok());
  EXPECT_EQ(TailOfFile(Path("log"), 2), "");
  EXPECT_EQ(TailOfFile(Path("missing"), 2), "");
}

TEST_F(FilesTest, TheTailOfALongFileIsShort) {
  ASSERT_TRUE(WriteFileAtomically(Path("log"), std::string(1'000'000, 'x') + "\nend\n").ok());
  EXPECT_EQ(TailOfFile(Path("log"), 1), "end");
  EXPECT_LE(TailOfFile(Path("log"), 5).size(), 64u * 1024u);
}

TEST_F(FilesTest, MakesDirectoriesWithTheirParents) {
  EXPECT_TRUE(MakeDirectories(Path("a/b/c")).ok());
  EXPECT_TRUE(MakeDirectories(Path("a/b/c/")).ok());
  ASSERT_TRUE(WriteFileAtomically(Path("a/file"), "").ok());
  EXPECT_THAT(std::string(MakeDirectories(Path("a/file")).message()),
              HasSubstr("is not a directory"));
  EXPECT_FALSE(MakeDirectories(Path("a/file/d")).ok());
  EXPECT_FALSE(MakeDirectories("").ok());
}

TEST_F(FilesTest, WhatLiesAtTheTemporaryPlaceIsNotWrittenTo) {
  ASSERT_TRUE(WriteFileAtomically(Path("other"), "theirs", 0666).ok());
  const std::string temporary = absl::StrCat(Path("key"), ".", getpid(), ".tmp");
  ASSERT_EQ(symlink(Path("other").c_str(), temporary.c_str()), 0);
  ASSERT_TRUE(WritePrivateFile(Path("key"), "secret").ok());
  EXPECT_EQ(*ReadFile(Path("other"), 10), "theirs");
  struct stat facts {};
  ASSERT_EQ(lstat(Path("key").c_str(), &facts), 0);
  EXPECT_TRUE(S_ISREG(facts.st_mode));
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(FilesTest, AnUncommittedFileLeavesTheOldOne) {
  ASSERT_TRUE(WriteFileAtomically(Path("x"), "old").ok());
  {
    auto file = AtomicFile::Create(Path("x"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append("new").ok());
    EXPECT_EQ(*ReadFile(Path("x"), 10), "old");
  }
  EXPECT_EQ(*ReadFile(Path("x"), 10), "old");
  EXPECT_EQ(CountFiles(), 1u);
}

TEST_F(FilesTest, CommitReplacesTheOldFile) {
  ASSERT_TRUE(WriteFileAtomically(Path("x"), "old").ok());
  auto file = AtomicFile::Create(Path("x"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append("ne").ok());
  ASSERT_TRUE((*file)->Append("w").ok());
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(*ReadFile(Path("x"), 10), "new");
  file->reset();
  EXPECT_EQ(*ReadFile(Path("x"), 10), "new");
  EXPECT_EQ(CountFiles(), 1u);
}

}  // namespace
}  // namespace sangam
