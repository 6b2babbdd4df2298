#include "common/data/libsvm.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

class LibsvmTest : public ::testing::Test {
 protected:
  LibsvmTest() {
    options_.rules.input_elements = 4;
    options_.rules.classes = 3;
  }
  absl::StatusOr<Table> Read(const std::string& text) const {
    return ReadLibsvm({DataFile("a.svm", text)}, zero_based_, options_);
  }
  std::string Error(const std::string& text) const {
    const auto table = Read(text);
    EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << table.status();
    return std::string(table.status().message());
  }
  static std::vector<float> Row(const Table& table, uint64_t row) {
    return {table.InputsAt(row), table.InputsAt(row) + table.columns()};
  }

  bool zero_based_ = false;
  ReadOptions options_;
};

TEST_F(LibsvmTest, ReadsSparseLinesAsDenseSamples) {
  for (const std::string& text :
       {std::string("2 1:0.5 4:-1e0\r\n\n# all\n0\n1\t2:3  3:4 # rest 1:9\n"),
        testing::Gzip("2 1:.5 4:-1\n0 \n+1 2:3 3:+4")}) {
    const auto table = Read(text);
    ASSERT_TRUE(table.ok()) << table.status();
    ASSERT_EQ(table->rows(), 3);
    EXPECT_THAT(Row(*table, 0), ElementsAre(0.5f, 0, 0, -1));
    EXPECT_THAT(Row(*table, 1), ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(Row(*table, 2), ElementsAre(0, 3, 4, 0));
    EXPECT_EQ(table->LabelsAt(0)[0], 2u);
  }
}

TEST_F(LibsvmTest, IndicesCanCountFromZero) {
  zero_based_ = true;
  EXPECT_THAT(Row(*Read("0 0:1 3:2"), 0), ElementsAre(1, 0, 0, 2));
  EXPECT_THAT(Error("0 4:1"), HasSubstr("a.svm:1: index: found \"4\", expected 0 to 3"));
}

TEST_F(LibsvmTest, FaultsNameFileAndLine) {
  EXPECT_EQ(
      Error("0 1:1\n0 5:1"),
      "a.svm:2: index: found \"5\", expected 1 to 4, as many as model.input_shape has elements");
  EXPECT_THAT(Error("0 0:1"), HasSubstr("a.svm:1: index: found \"0\", expected 1 to 4"));
  EXPECT_THAT(Error("0 18446744073709551615:1"), HasSubstr("index: found \"184467"));
  EXPECT_THAT(Error("0 2:1 2:1"), HasSubstr("index: found \"2\", expected more than 2, the one"));
  EXPECT_THAT(Error("0 2:1 1:1"), HasSubstr("index: found \"1\", expected more than 2"));
  EXPECT_THAT(Error("0 2"), HasSubstr("pair: found \"2\", expected index:value"));
  EXPECT_THAT(Error("0 -1:2"), HasSubstr("pair: found \"-1:2\""));
  EXPECT_THAT(Error("0 :2"), HasSubstr("pair: found \":2\""));
  EXPECT_THAT(Error("0 1:nan"), HasSubstr("value of index 1: found \"nan\""));
  EXPECT_THAT(Error("0 1:"), HasSubstr("value of index 1: found \"\""));
  EXPECT_THAT(Error("0\n3"), HasSubstr("a.svm:2: label: found \"3\", expected a class"));
  EXPECT_THAT(Error("-1 1:2"), HasSubstr("label: found \"-1\""));
  EXPECT_THAT(Error("1:2"), HasSubstr("label: found \"1:2\""));
  EXPECT_THAT(Error("# nothing\n"), HasSubstr("a.svm: found no sample"));
}

TEST_F(LibsvmTest, LabelsCanBeNumbers) {
  options_.rules.label_kind = LabelKind::kNumber;
  EXPECT_EQ(AsFloat(Read("-1.5 1:1")->LabelsAt(0)[0]), -1.5f);
}

TEST_F(LibsvmTest, KeepsToItsMemoryAndStopsWhenAsked) {
  options_.max_memory_bytes = 2 * 5 * 4 - 1;
  EXPECT_TRUE(Read("0").ok());
  EXPECT_EQ(Read("0\n0").status().code(), absl::StatusCode::kResourceExhausted);
  // A wide model makes much of a small file: refused before anything is touched.
  options_.max_memory_bytes = uint64_t{1} << 40;
  options_.rules.input_elements = uint64_t{1} << 50;
  EXPECT_EQ(Read("0").status().code(), absl::StatusCode::kResourceExhausted);
  const std::atomic<bool> cancelled{true};
  options_.cancelled = &cancelled;
  EXPECT_EQ(Read("0").status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace sangam
