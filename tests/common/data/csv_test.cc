#include "common/data/csv.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/read_options.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/common/data/data_files.h"
#include "tests/testing/idx_bytes.h"

namespace sangam {
namespace {

using testing::AsFloat;
using testing::DataFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHouses[] = "rooms,price,area\n3,1.5,70\n2,0.5,40\n";

class CsvTest : public ::testing::Test {
 protected:
  CsvTest() {
    spec_.add_label("price");
    options_.rules.label_kind = LabelKind::kNumber;
  }
  absl::StatusOr<CsvData> Read(const std::string& text, const CsvTraining* training = nullptr) {
    return ReadCsv(spec_, {DataFile("a.csv", text)}, options_, training);
  }
  std::string Error(const std::string& text, const CsvTraining* training = nullptr) {
    const auto data = Read(text, training);
    EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument) << data.status();
    return std::string(data.status().message());
  }
  // Rows as "inputs|labels".
  std::vector<std::vector<float>> Rows(const std::string& text,
                                       const CsvTraining* training = nullptr) {
    const auto data = Read(text, training);
    EXPECT_TRUE(data.ok()) << data.status();
    std::vector<std::vector<float>> rows;
    if (!data.ok()) return rows;
    for (uint64_t r = 0; r < data->table.rows(); ++r) {
      const float* inputs = data->table.InputsAt(r);
      rows.emplace_back(inputs, inputs + data->table.columns());
      for (uint64_t l = 0; l < data->table.labels(); ++l) {
        rows.back().push_back(AsFloat(data->table.LabelsAt(r)[l]));
      }
    }
    return rows;
  }
  void Set(const std::string& text) {
    v1::CsvDataSpec spec;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
    spec_ = spec;
  }

  v1::CsvDataSpec spec_;
  ReadOptions options_;
};

TEST_F(CsvTest, TakesAllColumnsButTheLabels) {
  EXPECT_THAT(Rows(kHouses), ElementsAre(ElementsAre(3, 70, 1.5f), ElementsAre(2, 40, 0.5f)));
  EXPECT_THAT(Rows(testing::Gzip(kHouses)).size(), 2);
}

TEST_F(CsvTest, TakesColumnsByNameAndNumber) {
  Set("label: 'area' label: '0' input: 'price'");
  EXPECT_THAT(Rows(kHouses), ElementsAre(ElementsAre(1.5f, 70, 3), ElementsAre(0.5f, 40, 2)));
  Set("label: '2' input: '1' input: '0' no_header: true separator: ';'");
  EXPECT_THAT(Rows("1;2;3\n4;5;6"), ElementsAre(ElementsAre(2, 1, 3), ElementsAre(5, 4, 6)));
}

TEST_F(CsvTest, UnderstandsQuotesLineEndsAndEmptyLines) {
  Set("label: 'the \"label\", quoted' input: 'a'");
  EXPECT_THAT(Rows("\xEF\xBB\xBF"
                   "a,b,\"the \"\"label\"\", quoted\"\r\n"
                   "\r\n"
                   "\"1\",\"two\nlines, \"\"both\"\" text\", +2e1\r\n"
                   " -.5 ,,\"3\""),
              ElementsAre(ElementsAre(1, 20), ElementsAre(-.5f, 3)));
}

TEST_F(CsvTest, FaultsNameFileLineAndColumn) {
  EXPECT_EQ(Error("rooms,price\n3,1\n\"x\ny\",2\n"),
            "a.csv:3: column \"rooms\": found \"x\\ny\", expected a number within the range of "
            "binary32");
  EXPECT_THAT(Error("rooms,price\n3,inf\n"), HasSubstr("a.csv:2: column \"price\": found \"inf\""));
  EXPECT_THAT(Error("rooms,price\n-Infinity,1\n"), HasSubstr("column \"rooms\": found"));
  EXPECT_THAT(Error("rooms,price\n1e39,1\n"), HasSubstr("column \"rooms\": found \"1e39\""));
  EXPECT_THAT(Error("rooms,price\n0x10,1\n"), HasSubstr("column \"rooms\": found \"0x10\""));
  EXPECT_THAT(Error("rooms,price\n1 2,1\n"), HasSubstr("column \"rooms\": found \"1 2\""));
  EXPECT_EQ(Error("rooms,price\n3,1\n\n3,1,2\n"), "a.csv:4: found 3 fields, expected 2");
  EXPECT_THAT(Error("rooms,price\n\"3,1\n"), HasSubstr("a.csv:2: found a quoted field without an"));
  EXPECT_THAT(Error("rooms,price\n\"3\"x,1\n"),
              HasSubstr("a.csv:2: found \"x,1\" behind a quoted field"));
  EXPECT_THAT(Error(""), HasSubstr("a.csv:1: found an empty file, expected the names"));
  EXPECT_THAT(Error("rooms,price\n"), HasSubstr("a.csv: found no sample"));
  Set("label: '1' no_header: true");
  EXPECT_THAT(Error("1,2\n3,x"), HasSubstr("a.csv:2: column 1: found \"x\""));
}

TEST_F(CsvTest, UnknownColumnsAreNamedWithTheClosest) {
  Set("label: 'prize'");
  EXPECT_EQ(
      Error(kHouses),
      "a.csv:1: data.csv.label[0]: found no column \"prize\"; did you mean 'price'? (columns: "
      "\"rooms\", \"price\", \"area\")");
  Set("label: 'price' input: '3'");
  EXPECT_THAT(Error(kHouses), HasSubstr("data.csv.input[0]: found no column \"3\""));
  Set("label: 'price' input: 'price'");
  EXPECT_THAT(Error(kHouses), HasSubstr("data.csv.input[0]: found column \"price\" a second time"));
  Set("label: 'x' no_header: true");
  EXPECT_THAT(Error("1,2"), HasSubstr("expected a number from 0 to 1"));
  Set("label: 'x'");
  EXPECT_THAT(Error("x,x\n1,2"), HasSubstr("several columns have the name \"x\""));
  EXPECT_THAT(Error("x\n1"), HasSubstr("found 0 input and 1 label columns of 1"));
}

TEST_F(CsvTest, MissingValuesFollowThePolicy) {
  const std::string text = "a,b,price\n1,,1\n3,8,2\nNaN,4,3\n5,NA,\n";
  EXPECT_THAT(Error(text), HasSubstr("a.csv:2: column \"b\": found \"\", expected a number within "
                                     "the range of binary32 (data.csv.missing says"));
  spec_.set_missing(v1::CsvDataSpec::SKIP_LINE);
  EXPECT_THAT(Rows(text), ElementsAre(ElementsAre(3, 8, 2)));
  EXPECT_EQ(Read(text)->skipped_lines, 3);
  EXPECT_THAT(Error("a,price\n,1\n"), HasSubstr("found no sample without missing values"));
  spec_.set_missing(v1::CsvDataSpec::ZERO);
  EXPECT_THAT(Error(text), HasSubstr("a.csv:5: column \"price\": found \"\""));
  const std::string labelled = "a,b,price\n1,,1\n3,8,2\nNaN,4,3\n";
  EXPECT_THAT(Rows(labelled),
              ElementsAre(ElementsAre(1, 0, 1), ElementsAre(3, 8, 2), ElementsAre(0, 4, 3)));
  spec_.set_missing(v1::CsvDataSpec::COLUMN_MEAN);
  EXPECT_THAT(Rows(labelled),
              ElementsAre(ElementsAre(1, 6, 1), ElementsAre(3, 8, 2), ElementsAre(2, 4, 3)));
  // The test set is completed by the training set's means.
  const auto training = Read(labelled);
  EXPECT_THAT(Rows("a,b,price\n,100,0\n", &training->training),
              ElementsAre(ElementsAre(2, 100, 0)));
  EXPECT_THAT(Error("a,b,price\n,1,0\n"),
              HasSubstr("a.csv: column \"a\": found no value in the training set"));
}

TEST_F(CsvTest, AllFilesHaveTheSameColumns) {
  const auto training = Read(kHouses);
  ASSERT_TRUE(training.ok());
  EXPECT_EQ(Error("rooms,area,price\n1,2,3\n", &training->training),
            "a.csv:1: name of column 1: found \"area\", expected \"price\", as in the job's other "
            "files");
  EXPECT_EQ(Error("rooms,price\n1,2\n", &training->training),
            "a.csv:1: found 2 fields, expected 3");
  const auto both =
      ReadCsv(spec_, {DataFile("1.csv", kHouses), DataFile("2.csv", kHouses)}, options_, nullptr);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->table.rows(), 4);
}

TEST_F(CsvTest, ClassesAreWholeNumbers) {
  options_.rules.label_kind = LabelKind::kClass;
  options_.rules.classes = 2;
  const auto data = Read("a,price\n7,1.0\n8,0\n");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->table.LabelsAt(0)[0], 1u);
  EXPECT_THAT(Error("a,price\n7,2\n"),
              HasSubstr("a.csv:2: column \"price\": found \"2\", expected a class, a whole number "
                        "below 2"));
  EXPECT_THAT(Error("a,price\n7,-1\n"), HasSubstr("found \"-1\""));
}

TEST_F(CsvTest, KeepsToItsMemoryAndStopsWhenAsked) {
  options_.max_memory_bytes = 2 * 3 * 4;
  EXPECT_TRUE(Read(kHouses).ok());
  --options_.max_memory_bytes;
  EXPECT_EQ(Read(kHouses).status().code(), absl::StatusCode::kResourceExhausted);
  const std::atomic<bool> cancelled{true};
  options_.cancelled = &cancelled;
  EXPECT_EQ(Read(kHouses).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(CsvTest, LongLinesAreRefused) {
  EXPECT_THAT(Error(std::string((16 << 20) + 1, '1')), HasSubstr("a.csv:1: found a line of more"));
}

}  // namespace
}  // namespace sangam
