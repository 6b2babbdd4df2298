// One job, one result: the same job gives the same bytes of model.safetensors however it was spread
// out. Real daemons, started by `sangam run`.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

using ::testing::HasSubstr;

struct Spread {
  int workers;
  int servers;
  int threads;
};

class OneResultTest : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = FreshFolder("data");
    // 200 is no multiple of the batch: each epoch ends with a batch of 8 samples, or 1 for each
    // micro-batch; 70 test samples make 9 chunks, the last one ragged.
    WriteTestData(data_, 200, 70);
  }

  // Runs the job and returns the bytes of its weights.
  std::string Weights(const TestJob& job, const Spread& spread) {
    const std::string label =
        absl::StrCat(job.name, "-", spread.workers, "-", spread.servers, "-", spread.threads);
    const std::string folder = FreshFolder(label);
    const std::string file = absl::StrCat(folder, "/job.textproto");
    WriteFile(file, JobText(job));
    const Finished run = RunCommand(
        {ClientBinary(), "run", file, absl::StrCat("--workers=", spread.workers),
         absl::StrCat("--servers=", spread.servers), absl::StrCat("--threads=", spread.threads),
         absl::StrCat("--data_root=", data_), absl::StrCat("--out=", folder, "/out")},
        absl::Seconds(120));
    EXPECT_EQ(run.exit_code, 0) << label << "\n" << run.output;
    EXPECT_THAT(run.output, HasSubstr(absl::StrCat("job ", job.name, " SUCCEEDED steps=8")))
        << label;
    const auto weights = ReadFile(absl::StrCat(folder, "/out/model.safetensors"));
    EXPECT_TRUE(weights.ok()) << weights.status();
    const auto metrics = ReadFile(absl::StrCat(folder, "/out/metrics.jsonl"));
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    return weights.ok() ? *weights : "";
  }

  void ExpectOneResult(const TestJob& job, const std::vector<Spread>& spreads) {
    const std::string alone = Weights(job, {1, 1, 1});
    ASSERT_FALSE(alone.empty());
    for (const Spread& spread : spreads) {
      EXPECT_TRUE(Weights(job, spread) == alone)
          << job.name << ": other weights with " << spread.workers << " workers, " << spread.servers
          << " servers, " << spread.threads << " threads";
    }
  }

  std::string data_;
};

TEST_F(OneResultTest, MomentumWithEightShares) {
  TestJob job;
  job.name = "momentum";
  // The hidden layer's segment spans two pages.
  job.hidden = 512;
  ExpectOneResult(job, {{2, 1, 1}, {3, 2, 1}, {5, 3, 1}, {1, 3, 2}, {2, 2, 2}, {3, 1, 2}});
}

TEST_F(OneResultTest, AdamWWithThreeShares) {
  TestJob job;
  job.name = "adamw";
  job.hidden = 400;
  job.shares = 3;
  job.optimizer = "learning_rate: 0.002 adamw {}";
  // Five workers: two of them have no share.
  ExpectOneResult(job, {{2, 2, 1}, {3, 1, 2}, {5, 3, 1}, {1, 1, 2}});
}

TEST_F(OneResultTest, SgdWithOneShareForEachOfFiveMicroBatches) {
  TestJob job;
  job.name = "sgd";
  job.micro_batches = 5;
  job.shares = 5;
  job.dropout = 0;
  job.optimizer = "learning_rate: 0.1 sgd {}";
  ExpectOneResult(job, {{2, 1, 1}, {5, 1, 1}, {3, 3, 2}});
}

// The tests above could not fail if the weights did not depend on the job.
TEST_F(OneResultTest, AnotherCutGivesOtherBits) {
  TestJob job;
  job.name = "cut";
  const std::string eight = Weights(job, {1, 1, 1});
  job.shares = 3;
  EXPECT_FALSE(Weights(job, {1, 1, 1}) == eight);
}

}  // namespace
}  // namespace sangam::testing
