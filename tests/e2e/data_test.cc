// The same samples reach the model however a job is spread and whoever reads them: augmented
// images, tables that are completed and standardised, fewer samples than workers. Real daemons,
// started by `sangam run`.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/cnn_job.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

using ::testing::HasSubstr;

class DataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = FreshFolder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    WriteTestData(folder_, 100, 30);
  }

  enum Reader { kEachWorker, kCoordinator };

  // Runs the job, which has not yet said how it is spread, and returns the bytes of its weights.
  std::string Weights(const std::string& job, const std::string& spread = "",
                      Reader reader = kEachWorker) {
    const std::string file = absl::StrCat(folder_, "/job", runs_, ".textproto");
    const std::string out = absl::StrCat(folder_, "/out", runs_);
    ++runs_;
    WriteFile(file, absl::StrCat(job, spread, "\n"));
    const Finished run =
        RunCommand({ClientBinary(), "run", file, "--threads=1",
                    absl::StrCat("--set=data.served=", reader == kCoordinator ? "true" : "false"),
                    absl::StrCat("--data_root=", folder_), absl::StrCat("--out=", out)},
                   absl::Seconds(60));
    EXPECT_EQ(run.exit_code, 0) << spread << "\n" << run.output;
    EXPECT_THAT(run.output, HasSubstr("SUCCEEDED")) << spread;
    const auto weights = ReadFile(absl::StrCat(out, "/model.safetensors"));
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.ok() ? *weights : "";
  }

  static std::string Pipeline(int workers) {
    return absl::StrCat("strategy: MODEL_PARALLEL resources { workers: ", workers, " }");
  }
  static std::string Parallel(int workers) {
    return absl::StrCat("resources { workers: ", workers, " servers: 2 }");
  }

  std::string folder_;
  int runs_ = 0;
};

TEST_F(DataTest, AugmentedImagesAreTheSameForEveryReader) {
  CnnJob job;
  job.data = "augmentation { crop_padding: 3 horizontal_flip: true }";
  job.epochs = 3;
  const std::string text = CnnJobText(job);
  const std::string local = Weights(text);
  EXPECT_TRUE(Weights(text, Parallel(1), kCoordinator) == local);
  EXPECT_TRUE(Weights(text, Parallel(3)) == local);
  EXPECT_TRUE(Weights(text, Parallel(3), kCoordinator) == local);
  EXPECT_TRUE(Weights(text, Pipeline(2), kCoordinator) == local);
  EXPECT_TRUE(Weights(text, Pipeline(3)) == local);
  job.data = "";
  EXPECT_FALSE(Weights(CnnJobText(job)) == local) << "augmentation changes nothing";
}

TEST_F(DataTest, TablesAreTheSameForEveryReader) {
  std::string table = "size,rooms,price\n";
  for (int line = 0; line < 70; ++line) {
    const int x = line * 37 % 101;
    absl::StrAppend(&table, x, ",", line % 9 == 4 ? "" : absl::StrCat(x * line % 13), ",",
                    0.5 * x + line % 13, "\n");
  }
  WriteFile(absl::StrCat(folder_, "/houses.csv"), table);
  const auto job = [](const std::string& missing) {
    return absl::StrCat(
        "name: \"table\" seed: 3 model { input_shape: [2] block { name: \"a\" layer { linear { "
        "out_features: 8 } } layer { batch_norm {} } layer { tanh {} } } block { name: \"b\" layer "
        "{ linear { out_features: 1 } } } } loss { mean_squared_error {} } data { csv { train: "
        "\"houses.csv\" test: \"houses.csv\" label: \"price\" missing: ",
        missing,
        " } standardize: true } optimizer { learning_rate: 0.01 adam {} clipping { max_norm: 1 } } "
        "batch { size: 16 micro_batches: 4 } epochs: 3 ");
  };
  const std::string local = Weights(job("COLUMN_MEAN"));
  EXPECT_TRUE(Weights(job("COLUMN_MEAN"), Parallel(3), kCoordinator) == local);
  EXPECT_TRUE(Weights(job("COLUMN_MEAN"), Pipeline(2), kCoordinator) == local);
  EXPECT_TRUE(Weights(job("COLUMN_MEAN"), Parallel(2)) == local);
  EXPECT_FALSE(Weights(job("ZERO")) == local) << "missing numbers are not there";
}

TEST_F(DataTest, FewerSamplesThanWorkers) {
  WriteTestData(folder_, 2, 1);
  struct Cut {
    int batch;
    int micro_batches;
  };
  // Batches of one sample, one that all samples do not fill, one with more micro-batches than there
  // are samples in all.
  for (const Cut cut : {Cut{1, 1}, Cut{3, 3}, Cut{64, 8}}) {
    CnnJob job;
    job.batch = cut.batch;
    job.micro_batches = cut.micro_batches;
    job.shares = cut.micro_batches;
    job.epochs = 4;
    const std::string text = CnnJobText(job);
    const std::string alone = Weights(text);
    EXPECT_TRUE(Weights(text, Parallel(3)) == alone) << cut.batch;
    EXPECT_TRUE(Weights(text, Parallel(3), kCoordinator) == alone) << cut.batch;
    EXPECT_TRUE(Weights(text, Pipeline(3)) == alone) << cut.batch;
    EXPECT_TRUE(Weights(text, "strategy: HYBRID pipeline { workers: 2 } resources { workers: 4 }",
                        kCoordinator) == alone)
        << cut.batch;
  }
}

}  // namespace
}  // namespace sangam::testing
