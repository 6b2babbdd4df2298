#include "common/data/job_data.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/data/data_root.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "tests/common/data/data_files.h"
#include "tests/testing/idx_bytes.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/worker_job.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JobDataTest : public ::testing::Test {
 protected:
  JobDataTest()
      : folder_(testing::FreshFolder(absl::StrCat(
            "job_data_", ::testing::UnitTest::GetInstance()->current_test_info()->name()))),
        root_(DataRoot::Create(folder_).value()),
        assignment_(testing::MakeAssignment(testing::WorkerJob(), v1::Assignment::PREPARE)) {
    testing::WriteData(testing::WorkerJob(), folder_);
    options_.root = &root_;
  }

  absl::StatusOr<JobData> Open() {
    return OpenJobData(assignment_.spec(), assignment_.plan().layout(), options_);
  }
  void ExpectRefused(absl::StatusCode code, const std::string& words) {
    const auto data = Open();
    EXPECT_EQ(data.status().code(), code) << data.status();
    EXPECT_THAT(std::string(data.status().message()), HasSubstr(words));
  }
  // The shape of the model's output.
  void SetOutputs(const std::vector<uint64_t>& shape) {
    v1::ModelLayout& layout = *assignment_.mutable_plan()->mutable_layout();
    auto& output = *layout.mutable_block(layout.block_size() - 1)->mutable_output_shape();
    output.Assign(shape.begin(), shape.end());
  }
  v1::IdxDataSpec* idx() { return assignment_.mutable_spec()->mutable_data()->mutable_idx(); }

  const std::string folder_;
  const DataRoot root_;
  v1::Assignment assignment_;
  JobDataOptions options_;
};

TEST_F(JobDataTest, OpensBothSetsAndKnowsTheirFacts) {
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->num_samples(), 70);
  EXPECT_EQ(data->test_samples(), 23);
  EXPECT_EQ(data->classes(), 5);
  EXPECT_EQ(data->memory_bytes(), 93 * 37);
}

TEST_F(JobDataTest, NeedsNoTestSetWhenTheJobNeverEvaluates) {
  idx()->clear_test_images();
  idx()->clear_test_labels();
  EXPECT_FALSE(Open().ok());
  assignment_.mutable_spec()->mutable_evaluation()->set_off(true);
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->test, nullptr);
  EXPECT_EQ(data->test_samples(), 0);
  EXPECT_EQ(data->classes(), 5);
}

TEST_F(JobDataTest, RefusesSamplesOfAnotherShape) {
  testing::WriteFile(absl::StrCat(folder_, "/train-images"),
                     testing::IdxBytes(0x803, {70, 6, 5}, std::string(70 * 30, 'x')));
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "data.idx.train_images: train-images has samples of 6 x 5, 30 elements; expected "
                "36, as model.input_shape says: 1 x 6 x 6");
}

TEST_F(JobDataTest, AcceptsSamplesOfAnotherShapeWithAsManyElements) {
  testing::WriteFile(absl::StrCat(folder_, "/train-images"),
                     testing::IdxBytes(0x803, {70, 4, 9}, std::string(70 * 36, 'x')));
  EXPECT_TRUE(Open().ok());
}

TEST_F(JobDataTest, RefusesLabelsWithoutAnOutput) {
  testing::WriteFile(absl::StrCat(folder_, "/test-labels"),
                     testing::IdxBytes(0x801, {23}, std::string(23, '\x05')));
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "data.idx.test_labels: test-labels has the label 5; expected less than 5");
}

TEST_F(JobDataTest, NamesTheFieldOfAPathThatLeadsOut) {
  idx()->set_test_labels("../test-labels");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "data.idx.test_labels: data path");
  idx()->set_test_labels("absent");
  ExpectRefused(absl::StatusCode::kNotFound, "data.idx.test_labels");
}

TEST_F(JobDataTest, HandsOnWhatIsWrongWithAFile) {
  const std::string path = absl::StrCat(folder_, "/train-images");
  std::filesystem::resize_file(path, 100);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "train-images");
}

TEST_F(JobDataTest, BothSetsShareTheAllowedMemory) {
  options_.max_memory_bytes = 93 * 37;
  EXPECT_TRUE(Open().ok());
  options_.max_memory_bytes = 93 * 37 - 1;
  ExpectRefused(absl::StatusCode::kResourceExhausted, "test-images");
  options_.max_memory_bytes = 70 * 37 - 1;
  ExpectRefused(absl::StatusCode::kResourceExhausted, "train-images");
}

TEST_F(JobDataTest, EndsWhenCancelled) {
  const std::atomic<bool> cancelled{true};
  options_.cancelled = &cancelled;
  ExpectRefused(absl::StatusCode::kCancelled, "cancelled");
}

TEST_F(JobDataTest, RefusesDataOfNoKind) {
  assignment_.mutable_spec()->mutable_data()->clear_kind();
  ExpectRefused(absl::StatusCode::kInvalidArgument, "data: found no kind of data, expected");
}

TEST_F(JobDataTest, ImagesCanHaveNumbersForLabels) {
  v1::JobSpec& spec = *assignment_.mutable_spec();
  SetOutputs({1});
  spec.mutable_loss()->mutable_mean_squared_error();
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->classes(), 0);
  EXPECT_EQ(data->train->label_kind(), LabelKind::kNumber);
  spec.mutable_loss()->mutable_binary_cross_entropy();
  ExpectRefused(absl::StatusCode::kInvalidArgument, "expected 0 or 1, as binary_cross_entropy");
  const std::string zeros_and_ones = std::string(22, '\0') + "\1";
  testing::WriteFile(absl::StrCat(folder_, "/test-labels"),
                     testing::IdxBytes(0x801, {23}, zeros_and_ones));
  testing::WriteFile(absl::StrCat(folder_, "/train-labels"),
                     testing::IdxBytes(0x801, {70}, std::string(70, '\1')));
  const auto binary = Open();
  ASSERT_TRUE(binary.ok()) << binary.status();
  EXPECT_EQ(testing::AsFloat(testing::LabelsOf(*binary->train, 3)[0]), 1.0f);
  SetOutputs({2});
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "has 1 labels for each sample; expected 2, as many as the model has outputs");
}

TEST_F(JobDataTest, ChannelMeanOfAnImageIsItsMean) {
  v1::DataSpec& spec = *assignment_.mutable_spec()->mutable_data();
  spec.set_mean(0.5f);
  spec.set_stddev(0.25f);
  const std::vector<float> row = testing::InputsOf(*Open()->train, 5);
  spec.clear_mean();
  spec.clear_stddev();
  spec.add_channel_mean(0.5f);
  spec.add_channel_stddev(0.25f);
  EXPECT_EQ(testing::InputsOf(*Open()->train, 5), row);
  spec.add_channel_mean(0);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "data.channel_mean: found 2 numbers");
}

TEST_F(JobDataTest, AugmentsImagesWithNormalisedZeros) {
  v1::DataSpec& spec = *assignment_.mutable_spec()->mutable_data();
  spec.set_mean(0.5f);
  spec.set_stddev(0.25f);
  spec.mutable_augmentation()->set_crop_padding(64);
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_TRUE(data->augmentation.has_value());
  const std::vector<float> image = testing::InputsOf(*data->train, 5);
  std::vector<float> changed(image.size());
  int outside = 0;
  for (uint64_t epoch = 0; epoch < 20; ++epoch) {
    data->augmentation->Apply(epoch, 5, image.data(), changed.data());
    outside += changed == std::vector<float>(image.size(), -2.0f) ? 1 : 0;
  }
  EXPECT_GT(outside, 10);
}

// A model of two inputs and one output over the numbers of a CSV file.
class TableJobTest : public JobDataTest {
 protected:
  TableJobTest() {
    v1::JobSpec& spec = *assignment_.mutable_spec();
    spec.mutable_model()->clear_input_shape();
    spec.mutable_model()->add_input_shape(2);
    spec.mutable_loss()->mutable_mean_squared_error();
    SetOutputs({1});
    testing::WriteFile(absl::StrCat(folder_, "/train1.csv"), "a,b,y\n1,5,10\n3,5,20\n");
    testing::WriteFile(absl::StrCat(folder_, "/train2.csv"), "a,b,y\n5,5,30\n");
    testing::WriteFile(absl::StrCat(folder_, "/test.csv"), "a,b,y\n3,6,40\n");
    csv()->add_train("train?.csv");
    csv()->add_test("test.csv");
    csv()->add_label("y");
  }
  v1::CsvDataSpec* csv() { return assignment_.mutable_spec()->mutable_data()->mutable_csv(); }
};

TEST_F(TableJobTest, StandardizesBothSetsByTheTrainingSet) {
  assignment_.mutable_spec()->mutable_data()->set_standardize(true);
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->num_samples(), 3);
  EXPECT_EQ(data->memory_bytes(), 4 * 3 * 4);
  EXPECT_THAT(testing::InputsOf(*data->train, 0), ElementsAre(-1.2247449f, 0));
  EXPECT_THAT(testing::InputsOf(*data->test, 0), ElementsAre(0, 0));
  EXPECT_EQ(testing::AsFloat(testing::LabelsOf(*data->train, 2)[0]), 30);
}

TEST_F(TableJobTest, FaultsNameFieldFileAndLine) {
  testing::WriteFile(absl::StrCat(folder_, "/test.csv"), "a,b,y\n3,x,40\n");
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "data.csv.test: test.csv:2: column \"b\": found \"x\", expected a number");
  csv()->add_label("b");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "data.csv.test: test.csv:2: column \"b\"");
  testing::WriteFile(absl::StrCat(folder_, "/test.csv"), "a,b,y\n3,6,40\n");
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "data.csv.train: train?.csv has samples of 1, 1 elements; expected 2");
}

TEST_F(TableJobTest, CountsTheLinesLeftOut) {
  testing::WriteFile(absl::StrCat(folder_, "/test.csv"), "a,b,y\n3,,40\n1,1,1\n");
  csv()->set_missing(v1::CsvDataSpec::SKIP_LINE);
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->skipped_lines, 1);
}

TEST_F(TableJobTest, BothSetsShareTheAllowedMemory) {
  options_.max_memory_bytes = 4 * 3 * 4;
  EXPECT_TRUE(Open().ok());
  --options_.max_memory_bytes;
  ExpectRefused(absl::StatusCode::kResourceExhausted, "data.csv.test: test.csv:2: ");
}

TEST_F(TableJobTest, ReadsLibsvmAndNpyAndMakesSynthetic) {
  v1::DataSpec& data = *assignment_.mutable_spec()->mutable_data();
  data.Clear();
  testing::WriteFile(absl::StrCat(folder_, "/a.svm"), "1 1:2\n3 2:4\n");
  data.mutable_libsvm()->add_train("a.svm");
  data.mutable_libsvm()->add_test("a.svm");
  auto opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(testing::InputsOf(*opened->train, 1), ElementsAre(0, 4));
  testing::WriteFile(absl::StrCat(folder_, "/x.npy"), testing::NpyBytes("|u1", "(1, 2)", "\3\4"));
  testing::WriteFile(absl::StrCat(folder_, "/y.npy"), testing::NpyBytes("|u1", "(1,)", "\5"));
  data.mutable_npy()->set_train_inputs("x.npy");
  data.mutable_npy()->set_train_labels("y.npy");
  data.mutable_npy()->set_test_inputs("x.npy");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "data.npy.test_labels");
  data.mutable_npy()->set_test_labels("y.npy");
  data.set_mean(1);
  opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(testing::InputsOf(*opened->test, 0), ElementsAre(2, 3));
  data.Clear();
  data.mutable_synthetic()->set_train_samples(5);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "data.synthetic.test_samples: found 0");
  data.mutable_synthetic()->set_test_samples(2);
  options_.root = nullptr;
  opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->train->num_samples(), 5);
  EXPECT_EQ(opened->test_samples(), 2);
}

TEST_F(JobDataTest, RefusesOneLabelWhereTheLossHasMoreTerms) {
  assignment_.mutable_plan()->mutable_layout()->set_terms_per_sample(3);
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "data.idx.train_labels: train-labels has 1 labels for each sample; expected 3, the "
                "terms of the loss");
}

// A model over sequences of four positions and a vocabulary of some bytes.
class SequenceJobTest : public JobDataTest {
 protected:
  SequenceJobTest() {
    SetVocabulary(123);
    v1::JobSpec& spec = *assignment_.mutable_spec();
    spec.mutable_model()->clear_input_shape();
    spec.mutable_model()->add_input_shape(4);
    std::filesystem::create_directories(absl::StrCat(folder_, "/books"));
    testing::WriteFile(absl::StrCat(folder_, "/books/b.txt"), "fghijz");
    testing::WriteFile(absl::StrCat(folder_, "/books/a.txt"), "abcde");
    testing::WriteFile(absl::StrCat(folder_, "/books/c.text"), "abcdefghi");
    text()->add_train("books/*.txt");
    text()->add_test("books/c.*");
  }

  void SetVocabulary(uint64_t vocabulary) {
    v1::ModelLayout& layout = *assignment_.mutable_plan()->mutable_layout();
    layout.set_terms_per_sample(4);
    auto& shape = *layout.mutable_block(layout.block_size() - 1)->mutable_output_shape();
    shape.Clear();
    shape.Add(4);
    shape.Add(vocabulary);
  }
  v1::TextDataSpec* text() { return assignment_.mutable_spec()->mutable_data()->mutable_text(); }
};

TEST_F(SequenceJobTest, TakesFilesInTheOrderOfTheirNamesEachOnce) {
  text()->add_train("books/b.txt");
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->memory_bytes(), 11 + 9);
  EXPECT_EQ(data->train->num_samples(), 2);
  EXPECT_EQ(data->test_samples(), 2);
  EXPECT_EQ(data->classes(), 'z' + 1);
  std::array<float, 4> row = {};
  std::array<uint32_t, 4> labels = {};
  ASSERT_TRUE(data->train->Read(1, row.data(), labels.data()).ok());
  EXPECT_EQ(row, (std::array<float, 4>{'e', 'f', 'g', 'h'}));
  EXPECT_EQ(labels, (std::array<uint32_t, 4>{'f', 'g', 'h', 'i'}));
}

TEST_F(SequenceJobTest, OpensTokenFiles) {
  testing::WriteFile(absl::StrCat(folder_, "/t.bin"),
                     std::string("\x07\0\x02\0\x01\0\0\0\x05\0", 10));
  v1::TokenDataSpec* tokens = assignment_.mutable_spec()->mutable_data()->mutable_tokens();
  tokens->add_train("t.bin");
  tokens->add_test("t.bin");
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->classes(), 8);
  EXPECT_EQ(data->train->num_samples(), 1);
}

TEST_F(SequenceJobTest, NeedsATestSetOnlyWhenTheJobEvaluates) {
  text()->clear_test();
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "data.text.test: found nothing, expected at least one pattern");
  assignment_.mutable_spec()->mutable_evaluation()->set_off(true);
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->test, nullptr);
}

TEST_F(SequenceJobTest, NamesThePatternThatMatchesNothing) {
  text()->add_train("books/*.md");
  ExpectRefused(absl::StatusCode::kNotFound, "data.text.train[1]: data path \"books/*.md\"");
}

TEST_F(SequenceJobTest, RefusesTokensWithoutAnOutput) {
  SetVocabulary('z');
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "data.text.train: books/*.txt has the label 122; expected less than 122");
}

TEST_F(SequenceJobTest, RefusesTokensThatTheEmbeddingLacks) {
  assignment_.mutable_spec()
      ->mutable_model()
      ->mutable_block(0)
      ->mutable_layer(0)
      ->mutable_embedding()
      ->set_vocabulary(100);
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "has the token 122; expected less than 100, the vocabulary");
}

TEST_F(SequenceJobTest, FindsTheEmbeddingBehindALayerThatChangesNothing) {
  v1::BlockSpec* block = assignment_.mutable_spec()->mutable_model()->mutable_block(0);
  block->clear_layer();
  block->add_layer()->mutable_flatten();
  block->add_layer()->mutable_embedding()->set_vocabulary(100);
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "has the token 122; expected less than 100, the vocabulary");
}

TEST_F(SequenceJobTest, RefusesAnotherNumberOfTermsAndShape) {
  assignment_.mutable_plan()->mutable_layout()->set_terms_per_sample(1);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "has 4 labels for each sample; expected 1");
  assignment_.mutable_spec()->mutable_model()->add_input_shape(2);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "expected 8, as model.input_shape says: 4 x 2");
}

TEST_F(SequenceJobTest, SaysWhichSetIsTooShort) {
  testing::WriteFile(absl::StrCat(folder_, "/books/c.text"), "abcd");
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "data.text.test: books/c.text: found 4 bytes, expected more than 4");
}

}  // namespace
}  // namespace sangam
