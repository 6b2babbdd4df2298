#include "server/core/job_progress.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using testing::Evaluated;
using testing::PipelineJob;
using testing::PlanOf;
using testing::Ready;
using testing::SmallJob;
using testing::Step;

using Names = std::vector<std::string>;

constexpr absl::Duration kBegan = absl::Seconds(100);

class JobProgressTest : public ::testing::Test {
 protected:
  explicit JobProgressTest(uint32_t workers = 2) : JobProgressTest(SmallJob("job", workers, 1)) {}
  explicit JobProgressTest(const v1::JobSpec& spec)
      : spec_(spec), plan_(PlanOf(spec_)), progress_(spec_, plan_) {}

  void AllReady() {
    for (int i = 0; i < plan_.worker_size(); ++i) {
      progress_.OnReady({v1::WORKER, static_cast<uint32_t>(i)}, Ready().ready());
    }
    progress_.OnReady({v1::SERVER, 0}, {});
  }

  v1::JobSpec spec_;
  v1::Plan plan_;
  JobProgress progress_;
};

TEST_F(JobProgressTest, KnowsWhoIsNotReady) {
  EXPECT_EQ(progress_.NotReady(), (Names{"worker w-1", "worker w-2", "server s-1"}));
  progress_.OnReady({v1::WORKER, 1}, Ready().ready());
  progress_.OnReady({v1::WORKER, 1}, Ready().ready());
  EXPECT_EQ(progress_.NotReady(), (Names{"worker w-1", "server s-1"}));
  progress_.OnReady({v1::SERVER, 0}, {});
  progress_.OnReady({v1::WORKER, 0}, Ready().ready());
  EXPECT_EQ(progress_.NotReady(), Names{});
}

TEST_F(JobProgressTest, BeginFixesTheLength) {
  AllReady();
  const auto length = progress_.Begin(kBegan);
  ASSERT_TRUE(length.ok()) << length.status();
  EXPECT_EQ(length->steps_per_epoch, testing::kStepsPerEpoch);
  EXPECT_EQ(length->steps_total, testing::kStepsTotal);
}

TEST_F(JobProgressTest, BeginNeedsWorkersThatAgree) {
  AllReady();
  v1::ReadyReport other = Ready().ready();
  other.set_train_samples(21);
  progress_.OnReady({v1::WORKER, 1}, other);
  const auto length = progress_.Begin(kBegan);
  EXPECT_NE(length.status().message().find("worker w-2 found 21"), absl::string_view::npos)
      << length.status();
  EXPECT_FALSE(progress_.begun());
}

TEST_F(JobProgressTest, NoTrainingBeforeItBegan) {
  EXPECT_EQ(progress_.OnStep(0, Step(plan_.worker(0), 0).step(), kBegan).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(progress_.OnEvaluation(0, Evaluated(plan_.worker(0), 6).evaluation()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(progress_.OnFinished(0).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(JobProgressTest, MetricsCarryEpochLossAndSpeedSinceTheBeginning) {
  AllReady();
  ASSERT_TRUE(progress_.Begin(kBegan).ok());
  for (uint64_t step = 0; step < 4; ++step) {
    const absl::Duration now = kBegan + absl::Seconds(2) * static_cast<double>(step + 1);
    ASSERT_TRUE(progress_.OnStep(0, Step(plan_.worker(0), step).step(), now)->empty());
    const auto metrics = progress_.OnStep(1, Step(plan_.worker(1), step).step(), now);
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    ASSERT_EQ(metrics->size(), 1u);
    const v1::StepMetrics& m = metrics->front();
    EXPECT_EQ(m.step(), step);
    EXPECT_EQ(m.epoch(), step / 3);
    EXPECT_EQ(m.samples(), step == 2 ? 4u : 8u);
    EXPECT_EQ(m.learning_rate(), spec_.optimizer().learning_rate());
    // Share losses 1, 2, 3, 4, each plus 10 t.
    EXPECT_EQ(m.loss(), (10.0 + 40.0 * static_cast<double>(step)) / (step == 2 ? 4 : 8));
    const double samples[] = {8, 16, 20, 28};
    EXPECT_DOUBLE_EQ(m.samples_per_second(), samples[step] / (2.0 * static_cast<double>(step + 1)));
  }
}

TEST_F(JobProgressTest, CompleteOnlyWithEveryLossAndTheLastEvaluation) {
  AllReady();
  ASSERT_TRUE(progress_.Begin(kBegan).ok());
  for (uint64_t step = 0; step + 1 < testing::kStepsTotal; ++step) {
    for (uint32_t w = 0; w < 2; ++w) {
      ASSERT_TRUE(progress_.OnStep(w, Step(plan_.worker(w), step).step(), kBegan).ok());
    }
  }
  ASSERT_TRUE(progress_.OnFinished(0).ok());
  EXPECT_FALSE(progress_.AllFinished());
  ASSERT_TRUE(progress_.OnFinished(1).ok());
  EXPECT_TRUE(progress_.AllFinished());
  EXPECT_NE(progress_.CheckComplete().message().find("losses of step 5 of 6"),
            absl::string_view::npos);
  for (uint32_t w = 0; w < 2; ++w) {
    ASSERT_TRUE(
        progress_.OnStep(w, Step(plan_.worker(w), testing::kStepsTotal - 1).step(), kBegan).ok());
  }
  EXPECT_NE(progress_.CheckComplete().message().find("evaluation"), absl::string_view::npos);
  ASSERT_TRUE(progress_.OnEvaluation(0, Evaluated(plan_.worker(0), 6).evaluation()).ok());
  EXPECT_FALSE(progress_.CheckComplete().ok());
  const auto evaluation = progress_.OnEvaluation(1, Evaluated(plan_.worker(1), 6).evaluation());
  ASSERT_TRUE(evaluation->has_value());
  EXPECT_EQ((*evaluation)->correct(), 3u);
  EXPECT_TRUE(progress_.CheckComplete().ok()) << progress_.CheckComplete();
}

TEST_F(JobProgressTest, ReportsOfAnotherWorkersSharesAreRefused) {
  AllReady();
  ASSERT_TRUE(progress_.Begin(kBegan).ok());
  EXPECT_FALSE(progress_.OnStep(1, Step(plan_.worker(0), 0).step(), kBegan).ok());
  EXPECT_FALSE(progress_.OnEvaluation(1, Evaluated(plan_.worker(0), 6).evaluation()).ok());
}

// Three workers with one block each.
class PipelineTest : public JobProgressTest {
 protected:
  PipelineTest() : JobProgressTest(PipelineJob("job")) {}

  void ReadyAs(uint32_t worker, uint64_t train_samples) {
    v1::ReadyReport report;
    if (train_samples != 0) report = Ready().ready();
    report.set_train_samples(train_samples);
    progress_.OnReady({v1::WORKER, worker}, report);
  }
};

TEST_F(PipelineTest, OnlyTheEndsOfAPipelineKnowTheData) {
  AllReady();
  ReadyAs(1, 0);
  EXPECT_TRUE(progress_.Begin(kBegan).ok());
}

TEST_F(PipelineTest, TheEndsOfAPipelineMustAgree) {
  AllReady();
  ReadyAs(2, 21);
  EXPECT_EQ(progress_.Begin(kBegan).status().message(),
            "the workers do not see the same data: training samples: worker w-1 found 20, worker "
            "w-3 found 21");
}

TEST_F(PipelineTest, OnlyTheLastWorkerReportsLossesAndEvaluationsButAllFinish) {
  AllReady();
  ASSERT_TRUE(progress_.Begin(kBegan).ok());
  for (uint32_t w = 0; w < 2; ++w) {
    const v1::WorkerPlan& worker = plan_.worker(static_cast<int>(w));
    EXPECT_EQ(progress_.OnStep(w, Step(worker, 0).step(), kBegan).status().message(),
              "losses of step 0: expected none from a worker without the model's last block");
    EXPECT_EQ(progress_.OnEvaluation(w, Evaluated(worker, 6).evaluation()).status().message(),
              "evaluation at step 6: expected none from a worker without the model's last block");
  }
  for (uint64_t step = 0; step < testing::kStepsTotal; ++step) {
    const auto metrics = progress_.OnStep(2, Step(plan_.worker(2), step).step(), kBegan);
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    EXPECT_EQ(metrics->size(), 1u);
  }
  const auto evaluation = progress_.OnEvaluation(2, Evaluated(plan_.worker(2), 6).evaluation());
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_TRUE(evaluation->has_value());
  for (const uint32_t w : {2u, 0u, 1u}) {
    EXPECT_FALSE(progress_.AllFinished());
    ASSERT_TRUE(progress_.OnFinished(w).ok());
  }
  EXPECT_TRUE(progress_.AllFinished());
  EXPECT_TRUE(progress_.CheckComplete().ok()) << progress_.CheckComplete();
}

class ServedDataTest : public JobProgressTest {
 protected:
  static v1::JobSpec Served() {
    v1::JobSpec spec = PipelineJob("job");
    spec.mutable_data()->set_served(true);
    return spec;
  }
  ServedDataTest() : JobProgressTest(Served()) {}
};

TEST_F(ServedDataTest, FactsComeFromTheCoordinatorAlone) {
  for (uint32_t w = 0; w < 3; ++w) progress_.OnReady({v1::WORKER, w}, {});
  progress_.OnReady({v1::SERVER, 0}, {});
  EXPECT_EQ(progress_.NotReady(), Names{"coordinator (data)"});
  progress_.OnServedData(Ready().ready());
  EXPECT_EQ(progress_.NotReady(), Names{});
  const auto length = progress_.Begin(kBegan);
  ASSERT_TRUE(length.ok()) << length.status();
  EXPECT_EQ(length->train_samples, testing::kTrainSamples);
  EXPECT_EQ(length->test_samples, 5u);
}

class TokensTest : public JobProgressTest {};

TEST_F(TokensTest, LossesAreMeansOverTheTermsOfTheSamples) {
  plan_.mutable_layout()->set_terms_per_sample(4);
  AllReady();
  ASSERT_TRUE(progress_.Begin(kBegan).ok());
  ASSERT_TRUE(progress_.OnStep(0, Step(plan_.worker(0), 0).step(), kBegan).ok());
  const auto metrics = progress_.OnStep(1, Step(plan_.worker(1), 0).step(), kBegan);
  ASSERT_EQ(metrics->size(), 1u);
  EXPECT_EQ(metrics->front().loss(), 10.0 / 32);
  EXPECT_EQ(metrics->front().samples(), 8u);
  v1::JobReport part = Evaluated(plan_.worker(0), 6);
  part.mutable_evaluation()->mutable_chunk(0)->set_correct(8);
  ASSERT_TRUE(progress_.OnEvaluation(0, part.evaluation()).ok());
  const auto evaluation = progress_.OnEvaluation(1, Evaluated(plan_.worker(1), 6).evaluation());
  ASSERT_TRUE(evaluation->has_value());
  EXPECT_EQ((*evaluation)->accuracy(), 10.0 / 20);
  EXPECT_EQ((*evaluation)->loss(), 1.5 / 20);
}

class ManyWorkersTest : public JobProgressTest {
 protected:
  ManyWorkersTest() : JobProgressTest(6) {}
};

TEST_F(ManyWorkersTest, WorkersWithoutSharesNeedNotKnowTheData) {
  AllReady();
  for (int i = 0; i < plan_.worker_size(); ++i) {
    if (plan_.worker(i).shares().begin() != plan_.worker(i).shares().end()) continue;
    progress_.OnReady({v1::WORKER, static_cast<uint32_t>(i)}, {});
  }
  EXPECT_TRUE(progress_.Begin(kBegan).ok());
}

}  // namespace
}  // namespace sangam
