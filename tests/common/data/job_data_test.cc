#include "common/data/job_data.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "tests/testing/idx_bytes.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/worker_job.h"
#include "common/data/data_root.h"

namespace sangam {
namespace {

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
  ExpectRefused(absl::StatusCode::kInvalidArgument, "expected idx");
}

}  // namespace
}  // namespace sangam
