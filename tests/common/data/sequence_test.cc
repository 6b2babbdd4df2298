#include "common/data/sequence.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/idx_bytes.h"
#include "tests/testing/subprocess.h"

namespace sangam {
namespace {

using testing::Gzip;
using ::testing::HasSubstr;

std::string Tokens(const std::vector<uint32_t>& tokens) {
  std::string bytes;
  for (const uint32_t token : tokens) {
    bytes.push_back(static_cast<char>(token));
    bytes.push_back(static_cast<char>(token >> 8));
  }
  return bytes;
}

// llm.c's header.
std::string Header(uint32_t version, uint32_t count) {
  std::string bytes;
  for (const uint32_t field : {uint32_t{20240520}, version, count}) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(field >> shift));
  }
  bytes.resize(1024, '\0');
  return bytes;
}

class SequenceTest : public ::testing::Test {
 protected:
  SequenceTest()
      : folder_(testing::FreshFolder(absl::StrCat(
            "sequence_", ::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    options_.positions = 3;
  }

  absl::StatusOr<std::unique_ptr<SequenceDataset>> Open(const std::vector<std::string>& contents) {
    options_.files.clear();
    for (size_t f = 0; f < contents.size(); ++f) {
      const std::string path = absl::StrCat(folder_, "/", f);
      testing::WriteFile(path, contents[f]);
      options_.files.push_back({path, absl::StrCat("file", f)});
    }
    return SequenceDataset::Open(options_);
  }
  void ExpectFails(const std::vector<std::string>& contents, absl::StatusCode code,
                   const std::string& words) {
    const auto opened = Open(contents);
    EXPECT_EQ(opened.status().code(), code) << opened.status();
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(words));
  }

  const std::string folder_;
  SequenceDataset::Options options_;
};

class TokenTest : public SequenceTest {
 protected:
  TokenTest() { options_.format = SequenceDataset::Format::kTokens; }
};

TEST_F(SequenceTest, CutsTheFilesIntoSamplesWhoseLabelsFollow) {
  const auto data = Open({"abcd", "efgh\xff"});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->num_samples(), 2);  // 8 bytes that have a successor; 2 are left over
  EXPECT_EQ((*data)->sample_shape(), std::vector<uint64_t>{3});
  EXPECT_EQ((*data)->sample_elements(), 3);
  EXPECT_EQ((*data)->labels_per_sample(), 3);
  EXPECT_EQ((*data)->num_classes(), 256);
  EXPECT_EQ((*data)->memory_bytes(), 9);
  std::vector<float> row(3);
  std::vector<uint32_t> labels(3);
  ASSERT_TRUE((*data)->Read(1, row.data(), labels.data()).ok());
  EXPECT_EQ(row, (std::vector<float>{'d', 'e', 'f'}));
  EXPECT_EQ(labels, (std::vector<uint32_t>{'e', 'f', 'g'}));
  EXPECT_EQ((*data)->Read(2, row.data(), labels.data()).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(SequenceTest, WritesNothingThatIsNotWanted) {
  const auto data = Open({"abcd"});
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<float> row(3);
  std::vector<uint32_t> labels(3);
  EXPECT_TRUE((*data)->Read(0, row.data(), nullptr).ok());
  EXPECT_TRUE((*data)->Read(0, nullptr, labels.data()).ok());
  EXPECT_EQ(row[2], 'c');
  EXPECT_EQ(labels[2], 'd');
}

TEST_F(SequenceTest, TheLastTokenNeedsASuccessor) {
  EXPECT_EQ(Open({"abcdefg"}).value()->num_samples(), 2);
  EXPECT_EQ(Open({"abcdef"}).value()->num_samples(), 1);
  EXPECT_EQ(Open({"abcd"}).value()->num_samples(), 1);
  ExpectFails({"abc"}, absl::StatusCode::kInvalidArgument,
              "file0: found 3 bytes, expected more than 3");
  ExpectFails({"", "", ""}, absl::StatusCode::kInvalidArgument,
              "file0 and 2 more files: found 0 bytes");
}

TEST_F(SequenceTest, EachFileMayBeGzipped) {
  const auto data = Open({Gzip("abcd"), "ef", Gzip("g")});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->num_samples(), 2);
  EXPECT_EQ((*data)->num_classes(), 'g' + 1);
  ExpectFails({"abcd", Gzip("abcd").substr(0, 20)}, absl::StatusCode::kDataLoss, "file1");
}

TEST_F(SequenceTest, LongFilesGoOnFromBlockToBlock) {
  std::string text(size_t{3} * 1024 * 1024 + 5, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i % 251);
  options_.positions = 1000;
  const auto data = Open({text.substr(0, 1500001), Gzip(text.substr(1500001))});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->memory_bytes(), text.size());
  std::vector<float> row(1000);
  std::vector<uint32_t> labels(1000);
  for (uint64_t s = 0; s < (*data)->num_samples(); ++s) {
    ASSERT_TRUE((*data)->Read(s, row.data(), labels.data()).ok());
    for (uint64_t p = 0; p < 1000; ++p) {
      ASSERT_EQ(row[p], static_cast<float>((s * 1000 + p) % 251));
      ASSERT_EQ(labels[p], (s * 1000 + p + 1) % 251);
    }
  }
}

TEST_F(SequenceTest, KeepsWithinTheAllowedMemory) {
  options_.max_memory_bytes = 9;
  EXPECT_TRUE(Open({"abcd", "efghi"}).ok());
  ExpectFails({"abcd", "efghij"}, absl::StatusCode::kResourceExhausted,
              "file1: needs at least 6 bytes of memory besides 4 that are held, allowed are 9");
  ExpectFails({"abcd", Gzip("efghij")}, absl::StatusCode::kResourceExhausted, "file1");
}

TEST_F(SequenceTest, StopsReadingWhenCancelled) {
  const std::atomic<bool> cancelled{true};
  options_.cancelled = &cancelled;
  ExpectFails({"abcd"}, absl::StatusCode::kCancelled, "file0");
}

TEST_F(SequenceTest, NamesAMissingFile) {
  ASSERT_TRUE(Open({"abcd", "efgh"}).ok());
  std::filesystem::remove(options_.files[1].path);
  const auto opened = SequenceDataset::Open(options_);
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("file1"));
}

TEST_F(TokenTest, ReadsFilesWithAndWithoutHeader) {
  const auto data = Open({Tokens({1, 2, 300}), Header(1, 4) + Tokens({50256, 4, 5, 6}),
                          Gzip(Header(1, 1) + Tokens({65535}))});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->num_samples(), 2);
  EXPECT_EQ((*data)->num_classes(), 65536);
  EXPECT_EQ((*data)->memory_bytes(), 16);
  std::vector<float> row(3);
  std::vector<uint32_t> labels(3);
  ASSERT_TRUE((*data)->Read(0, row.data(), labels.data()).ok());
  EXPECT_EQ(row, (std::vector<float>{1, 2, 300}));
  EXPECT_EQ(labels, (std::vector<uint32_t>{2, 300, 50256}));
  ASSERT_TRUE((*data)->Read(1, row.data(), labels.data()).ok());
  EXPECT_EQ(row, (std::vector<float>{50256, 4, 5}));
}

TEST_F(TokenTest, RefusesHalfATokenAtTheEndOfAnyFile) {
  ExpectFails({Tokens({1, 2, 3, 4}), Tokens({1, 2}) + "x", "y"}, absl::StatusCode::kInvalidArgument,
              "file1: found 5 bytes, the last at offset 4 is half a token");
}

TEST_F(TokenTest, RefusesAnotherVersion) {
  ExpectFails({Header(2, 4) + Tokens({1, 2, 3, 4})}, absl::StatusCode::kInvalidArgument,
              "file0: version at offset 4: found 2, expected 1");
}

TEST_F(TokenTest, RefusesACountThatContradictsTheFile) {
  ExpectFails({Header(1, 5) + Tokens({1, 2, 3, 4})}, absl::StatusCode::kInvalidArgument,
              "file0: number of tokens at offset 8: found 5, which makes 1034 bytes with the "
              "header, but the file holds 1032");
  ExpectFails({Header(1, 3) + Tokens({1, 2, 3, 4})}, absl::StatusCode::kInvalidArgument,
              "found 3, which makes 1030");
  ExpectFails({Header(1, 4) + Tokens({1, 2, 3, 4}) + "x"}, absl::StatusCode::kInvalidArgument,
              "but the file holds 1033");
}

TEST_F(TokenTest, RefusesACutOffHeader) {
  ExpectFails({Header(1, 4).substr(0, 1000)}, absl::StatusCode::kDataLoss,
              "file0: ends at offset 1000, expected a header of 1024 bytes");
  // Less than the magic number is two tokens at most.
  ExpectFails({Header(1, 4).substr(0, 2)}, absl::StatusCode::kInvalidArgument, "found 1 tokens");
}

}  // namespace
}  // namespace sangam
