#include "common/data/cifar.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/normalisation.h"
#include "common/data/read_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/data/data_files.h"
#include "tests/testing/idx_bytes.h"

namespace sangam {
namespace {

using testing::AsFloat;
using testing::DataFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::InputsOf;
using testing::LabelsOf;

// A record whose byte of channel c and pixel p is 50 c + p mod 50.
std::string Record(char label) {
  std::string record(1, label);
  for (int c = 0; c < 3; ++c) {
    for (int p = 0; p < 1024; ++p) record.push_back(static_cast<char>(50 * c + p % 50));
  }
  return record;
}

class CifarTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<CifarDataset>> Open(const std::string& content) const {
    return CifarDataset::Open({DataFile("a.bin", content)}, normalisation_, options_);
  }
  std::string Error(const std::string& content) const {
    const auto data = Open(content);
    EXPECT_FALSE(data.ok());
    return std::string(data.status().message());
  }

  Normalisation normalisation_;
  ReadOptions options_;
};

TEST_F(CifarTest, BringsThePlanesOfAPixelTogether) {
  for (const std::string& content : {Record(3) + Record(9), testing::Gzip(Record(3) + Record(9))}) {
    const auto data = Open(content);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ((*data)->num_samples(), 2);
    EXPECT_EQ((*data)->num_classes(), 10);
    EXPECT_EQ((*data)->memory_bytes(), 2 * 3073);
    EXPECT_THAT((*data)->sample_shape(), ElementsAre(32, 32, 3));
    EXPECT_THAT(LabelsOf(**data, 1), ElementsAre(9));
    const std::vector<float> image = InputsOf(**data, 1);
    ASSERT_EQ(image.size(), 3072);
    EXPECT_EQ(image[0], 0);
    EXPECT_EQ(image[1], 50 / 255.0f);
    EXPECT_EQ(image[3 * 33 + 2], 133 / 255.0f);
    EXPECT_EQ((*data)->Read(2, nullptr, nullptr).code(), absl::StatusCode::kOutOfRange);
  }
}

TEST_F(CifarTest, NormalisesEachChannel) {
  normalisation_.mean = {0, 0.5, 0.25};
  normalisation_.stddev = {1, 2, 0.5};
  const std::vector<float> image = InputsOf(**Open(Record(0)), 0);
  EXPECT_EQ(image[3], 1 / 255.0f);
  EXPECT_EQ(image[4], (51 / 255.0f - 0.5f) / 2.0f);
  EXPECT_EQ(image[5], (101 / 255.0f - 0.25f) / 0.5f);
}

TEST_F(CifarTest, FaultsNameFileAndOffset) {
  EXPECT_EQ(Error(Record(0) + "x"),
            "a.bin: found 3074 bytes, expected a multiple of 3073, the size of a record");
  EXPECT_EQ(
      Error(testing::Gzip(Record(0) + "x")),
      "a.bin: found 1 bytes of a record at offset 3073, expected 3073: a label and 3 x 32 x 32 "
      "bytes");
  EXPECT_EQ(Error(Record(0) + Record(10)),
            "a.bin: label at offset 3073: found 10, expected less than 10");
  EXPECT_THAT(Error(""), HasSubstr("a.bin: found no record"));
}

TEST_F(CifarTest, LabelsCanBeNumbers) {
  options_.rules.label_kind = LabelKind::kNumber;
  const auto data = Open(Record(7));
  EXPECT_EQ((*data)->num_classes(), 0);
  EXPECT_EQ(AsFloat(LabelsOf(**data, 0)[0]), 7.0f);
  options_.rules.unit_targets = true;
  EXPECT_TRUE(Open(Record(1)).ok());
  EXPECT_THAT(Error(Record(1) + Record(2)),
              HasSubstr("a.bin: label at offset 3073: found 2, expected 0 or 1"));
}

TEST_F(CifarTest, KeepsToItsMemoryAndStopsWhenAsked) {
  options_.max_memory_bytes = 2 * 3073 - 1;
  EXPECT_TRUE(Open(Record(0)).ok());
  EXPECT_EQ(Open(Record(0) + Record(1)).status().code(), absl::StatusCode::kResourceExhausted);
  const std::atomic<bool> cancelled{true};
  options_.cancelled = &cancelled;
  EXPECT_EQ(Open(Record(0)).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace sangam
