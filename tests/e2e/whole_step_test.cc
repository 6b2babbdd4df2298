// Decisions about a step as a whole: clipping, trust ratios and skipped steps give the same bytes
// of model.safetensors however many servers hold the pages. Real daemons, started by `sangam run`.
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

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

struct Spread {
  int workers;
  int servers;
};

class WholeStepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = FreshFolder("data");
    WriteTestData(data_, 200, 70);
  }

  Finished Run(const TestJob& job, const Spread& spread) {
    const std::string folder = Folder(job, spread);
    const std::string file = absl::StrCat(folder, ".textproto");
    WriteFile(file, JobText(job));
    return RunCommand({ClientBinary(), "run", file, absl::StrCat("--workers=", spread.workers),
                       absl::StrCat("--servers=", spread.servers), "--threads=1",
                       absl::StrCat("--data_root=", data_), absl::StrCat("--out=", folder)},
                      absl::Seconds(120));
  }

  std::string Weights(const TestJob& job, const Spread& spread) {
    const Finished run = Run(job, spread);
    EXPECT_EQ(run.exit_code, 0) << run.output;
    EXPECT_THAT(run.output, HasSubstr(absl::StrCat("job ", job.name, " SUCCEEDED steps=8")));
    output_ = run.output;
    const auto weights = ReadFile(absl::StrCat(Folder(job, spread), "/model.safetensors"));
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.ok() ? *weights : "";
  }

  void ExpectOneResult(const TestJob& job, const std::vector<Spread>& spreads) {
    alone_ = Weights(job, {1, 1});
    ASSERT_FALSE(alone_.empty());
    for (const Spread& spread : spreads) {
      EXPECT_TRUE(Weights(job, spread) == alone_)
          << job.name << ": other weights with " << spread.workers << " workers, " << spread.servers
          << " servers";
    }
  }

  std::string Folder(const TestJob& job, const Spread& spread) const {
    return absl::StrCat(data_, "/", job.name, "-", spread.workers, "-", spread.servers);
  }

  std::string data_;
  std::string alone_;
  std::string output_;  // of the last run
};

TEST_F(WholeStepTest, ClippingGivesOneResult) {
  TestJob job;
  job.name = "clipped";
  job.hidden = 512;  // the hidden layer's segment spans two pages
  job.optimizer =
      "learning_rate: 0.002 adamw {} clipping { max_norm: 0.05 } "
      "schedule { cosine {} warmup_steps: 3 }";
  ExpectOneResult(job, {{1, 3}, {2, 1}, {3, 3}, {2, 2}});
  // The norm counted.
  job.name = "unclipped";
  job.optimizer = "learning_rate: 0.002 adamw {} schedule { cosine {} warmup_steps: 3 }";
  EXPECT_FALSE(Weights(job, {1, 1}) == alone_);
}

TEST_F(WholeStepTest, TrustRatiosGiveOneResult) {
  TestJob job;
  job.name = "lamb";
  job.hidden = 512;
  job.optimizer = "learning_rate: 0.01 lamb {} clipping { max_norm: 0.5 }";
  ExpectOneResult(job, {{1, 3}, {3, 3}, {2, 1}});
}

// The first update throws the weights so far that no later gradient is finite.
TEST_F(WholeStepTest, SkippedStepsGiveOneResult) {
  TestJob job;
  job.name = "skips";
  job.hidden = 512;
  job.optimizer = "learning_rate: 1e30 sgd {}";
  job.evaluation = "off: true";
  job.more = "on_nonfinite: SKIP_STEP";
  ExpectOneResult(job, {{1, 3}, {3, 3}});
  EXPECT_THAT(output_, ContainsRegex("step [1-9] was skipped: the gradient is not finite: worker "
                                     "[^,]+, block (hidden|middle|out), shares \\["));
}

TEST_F(WholeStepTest, AGradientThatIsNotFiniteFailsTheJob) {
  TestJob job;
  job.name = "fails";
  job.optimizer = "learning_rate: 1e30 sgd {}";
  job.evaluation = "off: true";
  for (const Spread spread : {Spread{1, 1}, Spread{2, 3}}) {
    const Finished run = Run(job, spread);
    EXPECT_NE(run.exit_code, 0);
    EXPECT_THAT(run.output, ContainsRegex("the gradient is not finite: worker [^,]+, block "
                                          "(hidden|middle|out), shares \\["));
  }
  // Twenty in a row are too many to go on.
  job.name = "gives_up";
  job.epochs = 10;
  job.evaluation = "off: true";
  job.more = "on_nonfinite: SKIP_STEP";
  const Finished run = Run(job, {1, 3});
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.output, HasSubstr("the last 20 steps were skipped"));
}

}  // namespace
}  // namespace sangam::testing
