#include "common/data/synthetic.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/read_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/data/data_files.h"

namespace sangam {
namespace {

using testing::AsFloat;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::InputsOf;
using testing::LabelsOf;

class SyntheticTest : public ::testing::Test {
 protected:
  SyntheticTest() {
    options_.seed = 5;
    options_.samples = 1000;
    options_.shape = {8};
    read_.rules.input_elements = 8;
    read_.rules.classes = 4;
  }
  std::unique_ptr<SyntheticDataset> Open() const {
    auto data = SyntheticDataset::Open(options_, read_);
    EXPECT_TRUE(data.ok()) << data.status();
    return *std::move(data);
  }

  SyntheticDataset::Options options_;
  ReadOptions read_;
};

// A change of these numbers changes every job on synthetic data.
TEST_F(SyntheticTest, SamplesAreAsTheyAlwaysWere) {
  const std::vector<float> row = InputsOf(*Open(), 999);
  EXPECT_EQ(row[0], -0.135443211f);
  EXPECT_EQ(row[7], -0.290583313f);
  EXPECT_EQ(LabelsOf(*Open(), 999)[0], 3u);
}

TEST_F(SyntheticTest, AnySampleCanBeMadeAlone) {
  const auto data = Open();
  for (const uint64_t sample : {999u, 0u, 500u}) {
    EXPECT_EQ(InputsOf(*data, sample), InputsOf(*Open(), sample));
    EXPECT_EQ(LabelsOf(*data, sample), LabelsOf(*Open(), sample));
  }
  options_.test = true;
  EXPECT_NE(InputsOf(*data, 0), InputsOf(*Open(), 0));
  options_.test = false;
  options_.seed = 6;
  EXPECT_NE(InputsOf(*data, 0), InputsOf(*Open(), 0));
  EXPECT_EQ(data->Read(1000, nullptr, nullptr).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(SyntheticTest, InputsAreNearlyNormal) {
  const auto data = Open();
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  int beyond_two = 0;
  std::set<float> different;
  for (uint64_t s = 0; s < 1000; ++s) {
    for (const float x : InputsOf(*data, s)) {
      sum += x;
      squares += x * x;
      fourth += std::pow(x, 4);
      beyond_two += std::fabs(x) > 2 ? 1 : 0;
      different.insert(x);
    }
  }
  EXPECT_NEAR(sum / 8000, 0, 0.04);
  EXPECT_NEAR(squares / 8000, 1, 0.05);
  EXPECT_NEAR(fourth / 8000, 3, 0.3);
  EXPECT_NEAR(beyond_two / 8000.0, 0.0455, 0.01);
  EXPECT_GT(different.size(), 7900);
}

TEST_F(SyntheticTest, AllClassesOccur) {
  std::vector<int> count(4, 0);
  const auto data = Open();
  for (uint64_t s = 0; s < 1000; ++s) ++count[LabelsOf(*data, s)[0]];
  for (const int c : count) EXPECT_GT(c, 50);
  EXPECT_EQ(data->num_classes(), 4);
}

TEST_F(SyntheticTest, TargetsOfNumbersAreTheMapsOutputs) {
  read_.rules.label_kind = LabelKind::kNumber;
  read_.rules.labels_per_sample = 2;
  const auto exact = Open();
  options_.noise = 0.5;
  const auto noisy = Open();
  EXPECT_EQ(exact->num_classes(), 0);
  EXPECT_EQ(InputsOf(*exact, 3), InputsOf(*noisy, 3));
  double squares = 0;
  for (uint64_t s = 0; s < 1000; ++s) {
    const double difference = AsFloat(LabelsOf(*exact, s)[1]) - AsFloat(LabelsOf(*noisy, s)[1]);
    squares += difference * difference;
  }
  EXPECT_NEAR(std::sqrt(squares / 1000), 0.5, 0.05);
  read_.rules.unit_targets = true;
  options_.noise = 0;
  const auto signs = Open();
  for (uint64_t s = 0; s < 100; ++s) {
    EXPECT_EQ(AsFloat(LabelsOf(*signs, s)[1]), AsFloat(LabelsOf(*exact, s)[1]) > 0 ? 1.0f : 0.0f);
  }
}

TEST_F(SyntheticTest, NormalisationChangesInputsAndNotLabels) {
  const auto plain = Open();
  options_.normalisation.mean = {1};
  options_.normalisation.stddev = {2};
  const auto changed = Open();
  EXPECT_EQ(InputsOf(*changed, 3)[2], static_cast<float>((InputsOf(*plain, 3)[2] - 1.0) / 2.0));
  EXPECT_EQ(LabelsOf(*changed, 3), LabelsOf(*plain, 3));
}

TEST_F(SyntheticTest, TokensHaveLabelsOfTheirOwn) {
  read_.rules.vocabulary = 16;
  read_.rules.labels_per_sample = 8;
  read_.rules.classes = 16;
  const auto data = Open();
  std::vector<int> label_of(16, -1);
  for (uint64_t s = 0; s < 200; ++s) {
    const std::vector<float> row = InputsOf(*data, s);
    const std::vector<uint32_t> labels = LabelsOf(*data, s);
    for (int p = 0; p < 8; ++p) {
      ASSERT_LT(row[p], 16);
      int& label = label_of[static_cast<int>(row[p])];
      if (label < 0) label = static_cast<int>(labels[p]);
      EXPECT_EQ(label, static_cast<int>(labels[p]));
    }
  }
  EXPECT_THAT(label_of, ::testing::Each(::testing::Ge(0)));
  // One label for the whole sequence.
  read_.rules.labels_per_sample = 1;
  read_.rules.classes = 3;
  EXPECT_LT(LabelsOf(*Open(), 7)[0], 3u);
}

TEST_F(SyntheticTest, RefusesWhatHasNoMap) {
  read_.rules.labels_per_sample = 3;
  EXPECT_THAT(std::string(SyntheticDataset::Open(options_, read_).status().message()),
              HasSubstr("data.synthetic: found 8 inputs and 3 labels of 4 classes"));
  read_.rules.labels_per_sample = 1;
  read_.max_memory_bytes = 4 * 8 * 4 - 1;
  EXPECT_EQ(SyntheticDataset::Open(options_, read_).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace sangam
