#include "common/data/input_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/idx_bytes.h"
#include "tests/testing/subprocess.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class InputFileTest : public ::testing::Test {
 protected:
  InputFileTest() : path_(::testing::TempDir() + "/input_file_test_" + std::to_string(getpid())) {}
  ~InputFileTest() override { unlink(path_.c_str()); }

  absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& bytes) {
    testing::WriteFile(path_, bytes);
    return InputFile::Open(path_, "the-name");
  }

  // Reads `count` bytes and expects the end behind them.
  absl::StatusOr<std::string> ReadAll(const std::string& bytes, size_t count) {
    auto file = Open(bytes);
    if (!file.ok()) return file.status();
    std::string content(count, '\0');
    absl::Status status = (*file)->Read(count, reinterpret_cast<uint8_t*>(content.data()));
    if (status.ok()) status = (*file)->ExpectEnd();
    if (!status.ok()) return status;
    return content;
  }

  const std::string path_;
};

std::string Content(size_t size) {
  std::string content;
  for (size_t i = 0; i < size; ++i) content.push_back(static_cast<char>(i * i + i / 7));
  return content;
}

TEST_F(InputFileTest, ReadsPlainFiles) {
  EXPECT_EQ(ReadAll("hello", 5).value(), "hello");
  EXPECT_EQ(ReadAll("", 0).value(), "");
}

TEST_F(InputFileTest, ReadsGzipWhateverTheNameSays) {
  const std::string content = Content(700'000);
  EXPECT_EQ(ReadAll(testing::Gzip(content), content.size()).value(), content);
  EXPECT_EQ(ReadAll(testing::Gzip(""), 0).value(), "");
}

TEST_F(InputFileTest, ReadsSeveralMembersAsOneContent) {
  EXPECT_EQ(ReadAll(testing::Gzip("one") + testing::Gzip("") + testing::Gzip("two"), 6).value(),
            "onetwo");
}

TEST_F(InputFileTest, KnowsAnUpperBoundOfTheContent) {
  auto plain = Open("12345");
  EXPECT_FALSE((*plain)->gzipped());
  EXPECT_EQ((*plain)->max_content_bytes(), 5);
  // The best that deflate can do.
  const std::string zeros(10'000'000, '\0');
  auto packed = Open(testing::Gzip(zeros));
  EXPECT_TRUE((*packed)->gzipped());
  EXPECT_GE((*packed)->max_content_bytes(), zeros.size());
  EXPECT_LE((*packed)->max_content_bytes(), 2 * zeros.size());
}

TEST_F(InputFileTest, SaysWhereAFileEndsTooEarly) {
  const auto plain = ReadAll("12345", 9);
  EXPECT_EQ(plain.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(plain.status().message(), "the-name: ends at offset 5, expected 4 more bytes");
  const auto packed = ReadAll(testing::Gzip("12345"), 9);
  EXPECT_EQ(packed.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(packed.status().message()), HasSubstr("offset 5"));
}

TEST_F(InputFileTest, SaysWhereSomethingFollowsTheEnd) {
  EXPECT_EQ(ReadAll("12345", 3).status().message(),
            "the-name: more bytes at offset 3, expected the end");
  EXPECT_THAT(std::string(ReadAll(testing::Gzip("12345"), 3).status().message()),
              HasSubstr("more bytes at offset 3"));
  const auto behind = ReadAll(testing::Gzip("12345") + "x", 5);
  EXPECT_EQ(behind.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(behind.status().message()), HasSubstr("behind the gzip data"));
  // Looks like another member, but is not.
  EXPECT_EQ(ReadAll(testing::Gzip("12345") + "\x1f", 5).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadAll(testing::Gzip("12345") + "\x1f\x8b garbage", 5).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(InputFileTest, RefusesGzipCutOffAnywhere) {
  const std::string content = Content(3000);
  const std::string packed = testing::Gzip(content);
  for (size_t size = 2; size < packed.size(); ++size) {
    const auto found = ReadAll(packed.substr(0, size), content.size());
    EXPECT_EQ(found.status().code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST_F(InputFileTest, RefusesGzipWithAFlippedBitInDataOrTrailer) {
  const std::string content = Content(3000);
  const std::string packed = testing::Gzip(content);
  // The ten bytes of the header hold a time, flags and the system, which nothing guards.
  for (size_t at = 10; at < packed.size(); at += 7) {
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_EQ(ReadAll(damaged, content.size()).status().code(), absl::StatusCode::kDataLoss) << at;
  }
  for (size_t at = packed.size() - 8; at < packed.size(); ++at) {
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_EQ(ReadAll(damaged, content.size()).status().code(), absl::StatusCode::kDataLoss) << at;
  }
}

TEST_F(InputFileTest, NamesWhatCannotBeOpened) {
  const auto missing = InputFile::Open(path_ + "_missing", "the-name");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("the-name"));
  EXPECT_EQ(InputFile::Open(::testing::TempDir(), "a-folder").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(InputFileTest, DoesNotWaitForANamedPipe) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(InputFile::Open(path_, "a-pipe").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sangam
