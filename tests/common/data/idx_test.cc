#include "common/data/idx.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/idx_bytes.h"
#include "tests/testing/subprocess.h"

namespace sangam {
namespace {

using testing::Gzip;
using ::testing::HasSubstr;
using testing::IdxBytes;

constexpr uint32_t kImages = 0x00000803;
constexpr uint32_t kLabels = 0x00000801;

class IdxTest : public ::testing::Test {
 protected:
  IdxTest() : base_(::testing::TempDir() + "/idx_test_" + std::to_string(getpid())) {
    options_.images = {base_ + "_images", "train-images"};
    options_.labels = {base_ + "_labels", "train-labels"};
  }
  ~IdxTest() override {
    unlink(options_.images.path.c_str());
    unlink(options_.labels.path.c_str());
  }

  absl::StatusOr<std::unique_ptr<IdxDataset>> Open(const std::string& images,
                                                   const std::string& labels) {
    testing::WriteFile(options_.images.path, images);
    testing::WriteFile(options_.labels.path, labels);
    return IdxDataset::Open(options_);
  }

  // Expects the code and the words in the message.
  void ExpectFails(const std::string& images, const std::string& labels, absl::StatusCode code,
                   const std::string& words) {
    const auto opened = Open(images, labels);
    EXPECT_EQ(opened.status().code(), code) << opened.status();
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(words));
  }

  const std::string base_;
  IdxDataset::Options options_;
};

// Three images of 2 x 2 pixels.
const std::string& Images() {
  static const std::string bytes = IdxBytes(
      kImages, {3, 2, 2}, std::string("\x00\x01\x02\x03\xff\x80\x7f\x10\x05\x06\x07\x08", 12));
  return bytes;
}
const std::string& Labels() {
  static const std::string bytes = IdxBytes(kLabels, {3}, std::string("\x02\x00\x07", 3));
  return bytes;
}

TEST_F(IdxTest, ReadsImagesAndLabels) {
  const auto data = Open(Images(), Labels());
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->num_samples(), 3);
  EXPECT_EQ((*data)->sample_shape(), (std::vector<uint64_t>{2, 2}));
  EXPECT_EQ((*data)->sample_elements(), 4);
  EXPECT_EQ((*data)->num_classes(), 8);
  EXPECT_EQ((*data)->memory_bytes(), 15);
  std::vector<float> row(4);
  uint32_t label = 0;
  ASSERT_TRUE((*data)->Read(1, row.data(), &label).ok());
  EXPECT_EQ(label, 0);
  EXPECT_EQ(row, (std::vector<float>{1.0f, 128 / 255.0f, 127 / 255.0f, 16 / 255.0f}));
  ASSERT_TRUE((*data)->Read(2, row.data(), &label).ok());
  EXPECT_EQ(label, 7);
  EXPECT_EQ((*data)->Read(3, row.data(), &label).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(IdxTest, WritesNothingThatIsNotWanted) {
  const auto data = Open(Images(), Labels());
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->labels_per_sample(), 1);
  std::vector<float> row(4, -1);
  uint32_t label = 99;
  ASSERT_TRUE((*data)->Read(2, nullptr, &label).ok());
  EXPECT_EQ(label, 7);
  ASSERT_TRUE((*data)->Read(1, row.data(), nullptr).ok());
  EXPECT_EQ(row[0], 1.0f);
}

TEST_F(IdxTest, EachFileMayBeGzipped) {
  for (const bool images : {false, true}) {
    for (const bool labels : {false, true}) {
      const auto data =
          Open(images ? Gzip(Images()) : Images(), labels ? Gzip(Labels()) : Labels());
      ASSERT_TRUE(data.ok()) << data.status();
      EXPECT_EQ((*data)->num_samples(), 3);
    }
  }
}

TEST_F(IdxTest, NormalisesWithMeanAndDeviation) {
  options_.mean = 0.25f;
  options_.stddev = 0.5f;
  const auto data = Open(Images(), Labels());
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<float> row(4);
  uint32_t label = 0;
  ASSERT_TRUE((*data)->Read(1, row.data(), &label).ok());
  EXPECT_EQ(row[0], (1.0f - 0.25f) / 0.5f);
  EXPECT_EQ(row[1], (128 / 255.0f - 0.25f) / 0.5f);
}

TEST_F(IdxTest, RefusesSenselessNormalisation) {
  for (const float stddev : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::infinity()}) {
    options_.stddev = stddev;
    ExpectFails(Images(), Labels(), absl::StatusCode::kInvalidArgument, "stddev");
  }
  options_.stddev = 1;
  options_.mean = std::numeric_limits<float>::quiet_NaN();
  ExpectFails(Images(), Labels(), absl::StatusCode::kInvalidArgument, "mean");
}

TEST_F(IdxTest, RefusesAnotherMagicNumber) {
  ExpectFails(Labels(), Labels(), absl::StatusCode::kInvalidArgument,
              "train-images: magic number at offset 0: found 0x00000801, expected 0x00000803");
  ExpectFails(Images(), Images(), absl::StatusCode::kInvalidArgument,
              "train-labels: magic number at offset 0: found 0x00000803, expected 0x00000801");
  // Floats instead of bytes.
  ExpectFails(IdxBytes(0x00000d03, {3, 2, 2}, std::string(48, 'x')), Labels(),
              absl::StatusCode::kInvalidArgument, "found 0x00000d03");
}

TEST_F(IdxTest, RefusesFilesCutOffAnywhere) {
  for (size_t size = 0; size < Images().size(); ++size) {
    const auto opened = Open(Images().substr(0, size), Labels());
    EXPECT_FALSE(opened.ok()) << size;
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr("train-images")) << size;
  }
  for (size_t size = 0; size < Labels().size(); ++size) {
    const auto opened = Open(Images(), Labels().substr(0, size));
    EXPECT_FALSE(opened.ok()) << size;
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr("train-labels")) << size;
  }
  const std::string packed = Gzip(Images());
  for (size_t size = 0; size < packed.size(); ++size) {
    EXPECT_FALSE(Open(packed.substr(0, size), Labels()).ok()) << size;
  }
}

TEST_F(IdxTest, RefusesBytesBehindTheEnd) {
  ExpectFails(Images() + "x", Labels(), absl::StatusCode::kDataLoss,
              "train-images: more bytes at offset 28");
  ExpectFails(Gzip(Images() + "x"), Labels(), absl::StatusCode::kDataLoss,
              "train-images: more bytes at offset 28");
  ExpectFails(Gzip(Images()) + "x", Labels(), absl::StatusCode::kDataLoss, "train-images");
  ExpectFails(Images(), Labels() + std::string(1, '\0'), absl::StatusCode::kDataLoss,
              "train-labels: more bytes at offset 11");
}

TEST_F(IdxTest, RefusesAWrongChecksum) {
  std::string packed = Gzip(Images());
  packed[packed.size() - 8] = static_cast<char>(packed[packed.size() - 8] ^ 1);
  ExpectFails(packed, Labels(), absl::StatusCode::kDataLoss, "damaged gzip data");
}

TEST_F(IdxTest, RefusesDifferentCounts) {
  ExpectFails(Images(), IdxBytes(kLabels, {2}, std::string(2, '\1')),
              absl::StatusCode::kInvalidArgument,
              "train-labels: number of labels at offset 4: found 2, expected 3");
}

TEST_F(IdxTest, RefusesEmptySizes) {
  ExpectFails(IdxBytes(kImages, {0, 2, 2}, ""), IdxBytes(kLabels, {0}, ""),
              absl::StatusCode::kInvalidArgument, "size at offset 4: found 0");
  ExpectFails(IdxBytes(kImages, {3, 2, 0}, ""), Labels(), absl::StatusCode::kInvalidArgument,
              "size at offset 12: found 0");
}

TEST_F(IdxTest, BelievesNoSizeThatTheFileCannotHold) {
  // 2^32 - 1 images of 2^16 x 2^15 pixels: nearly 2^63 bytes; then one that overflows 64 bits.
  ExpectFails(IdxBytes(kImages, {0xffffffff, 0x10000, 0x8000}, "abc"), Labels(),
              absl::StatusCode::kInvalidArgument, "file holds at most 19 bytes");
  ExpectFails(IdxBytes(kImages, {0xffffffff, 0xffffffff, 0xffffffff}, "abc"), Labels(),
              absl::StatusCode::kInvalidArgument, "overflow 64 bits");
  // A gzip file may hold a thousand times its size, not more.
  ExpectFails(Gzip(IdxBytes(kImages, {0xffffffff, 0x10000, 0x8000}, "abc")), Labels(),
              absl::StatusCode::kInvalidArgument, "uncompressed bytes");
}

TEST_F(IdxTest, KeepsWithinTheAllowedMemory) {
  options_.max_memory_bytes = 15;
  EXPECT_TRUE(Open(Images(), Labels()).ok());
  options_.max_memory_bytes = 14;
  ExpectFails(Images(), Labels(), absl::StatusCode::kResourceExhausted, "12 and 3 bytes");
  // Not even enough for the images alone.
  options_.max_memory_bytes = 11;
  ExpectFails(Images(), Labels(), absl::StatusCode::kResourceExhausted, "allowed are 11");
}

TEST_F(IdxTest, StopsReadingWhenCancelled) {
  const std::atomic<bool> cancelled{true};
  options_.cancelled = &cancelled;
  ExpectFails(Images(), Labels(), absl::StatusCode::kCancelled, "train-labels");
}

TEST_F(IdxTest, NamesAMissingFile) {
  ASSERT_TRUE(Open(Images(), Labels()).ok());
  unlink(options_.labels.path.c_str());
  const auto opened = IdxDataset::Open(options_);
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("train-labels"));
}

// Debian's dataset-fashion-mnist; a check against files that we did not write ourselves.
TEST_F(IdxTest, ReadsFashionMnistWhereItIsInstalled) {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  if (access((folder + "t10k-images-idx3-ubyte.gz").c_str(), R_OK) != 0) {
    GTEST_SKIP() << "the package dataset-fashion-mnist is not installed";
  }
  IdxDataset::Options options;
  options.images = {folder + "t10k-images-idx3-ubyte.gz", "images"};
  options.labels = {folder + "t10k-labels-idx1-ubyte.gz", "labels"};
  const auto data = IdxDataset::Open(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->num_samples(), 10000);
  EXPECT_EQ((*data)->sample_shape(), (std::vector<uint64_t>{28, 28}));
  EXPECT_EQ((*data)->num_classes(), 10);
  std::vector<uint64_t> of_class(10);
  std::vector<float> row(784);
  for (uint64_t s = 0; s < 10000; ++s) {
    uint32_t label = 0;
    ASSERT_TRUE((*data)->Read(s, row.data(), &label).ok());
    ++of_class[label];
  }
  EXPECT_EQ(of_class, std::vector<uint64_t>(10, 1000));
}

}  // namespace
}  // namespace sangam
