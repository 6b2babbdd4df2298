#include "common/plan/forecast.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "tests/common/plan/plan_fixtures.h"

namespace sangam {
namespace {

using testing::BlockSizes;
using testing::ChainLayout;
using testing::ClusterOf;
using ::testing::HasSubstr;
using testing::JobOf;

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// 1 ms for each forward of a sample, 1 MiB of activations; small messages and parameters.
v1::ModelLayout Layout(uint32_t blocks) {
  return ChainLayout(10, std::vector<BlockSizes>(blocks, {10, 1000, 1000000, kMebibyte, 0}));
}

v1::ClusterFacts LimitedCluster(uint32_t workers, uint64_t memory_bytes) {
  v1::ClusterFacts cluster = ClusterOf(workers);
  for (v1::WorkerFacts& worker : *cluster.mutable_worker()) worker.set_memory_bytes(memory_bytes);
  return cluster;
}

v1::Strategy Chosen(const v1::PlanReport& report) {
  EXPECT_TRUE(report.feasible()) << report.explanation();
  EXPECT_LT(report.chosen(), static_cast<uint32_t>(report.forecast_size()));
  return report.forecast(static_cast<int>(report.chosen())).strategy();
}

TEST(ForecastTest, LooksAtEveryStrategyAndTakesTheOneThatTheJobNames) {
  for (const v1::Strategy strategy : {v1::DATA_PARALLEL, v1::MODEL_PARALLEL, v1::HYBRID}) {
    const v1::PlanReport report =
        MakeForecasts(JobOf(16, 8, 4, strategy), Layout(4), ClusterOf(4), {});
    ASSERT_EQ(report.forecast_size(), 3);
    EXPECT_EQ(report.forecast(0).strategy(), v1::DATA_PARALLEL);
    EXPECT_EQ(report.forecast(1).strategy(), v1::MODEL_PARALLEL);
    EXPECT_EQ(report.forecast(2).strategy(), v1::HYBRID);
    EXPECT_EQ(Chosen(report), strategy);
    EXPECT_THAT(report.explanation(), HasSubstr(v1::Strategy_Name(strategy) + " as the job says"));
    EXPECT_EQ(report.cluster().worker_size(), 4);
    EXPECT_FALSE(report.measured());
    for (const v1::StrategyForecast& forecast : report.forecast()) {
      EXPECT_TRUE(forecast.fits()) << forecast.obstacle();
      EXPECT_NE(forecast.data(), "");
    }
    EXPECT_EQ(report.forecast(0).replicas(), 4u);
    EXPECT_EQ(report.forecast(1).ranks(), 4u);
    EXPECT_EQ(report.forecast(2).ranks(), 2u);
    EXPECT_EQ(report.forecast(2).replicas(), 2u);
  }
}

TEST(ForecastTest, UnspecifiedIsDataParallel) {
  const v1::PlanReport report =
      MakeForecasts(JobOf(16, 8, 4, v1::STRATEGY_UNSPECIFIED), Layout(4), ClusterOf(4), {});
  EXPECT_EQ(Chosen(report), v1::DATA_PARALLEL);
}

TEST(ForecastTest, AutoTakesDataParallelForASmallModelOnAFastNetwork) {
  const v1::PlanReport report =
      MakeForecasts(JobOf(16, 8, 4, v1::AUTO), Layout(4), ClusterOf(4), {});
  EXPECT_EQ(Chosen(report), v1::DATA_PARALLEL);
  EXPECT_THAT(report.explanation(), HasSubstr("DATA_PARALLEL is the fastest that fits: "));
  EXPECT_THAT(report.explanation(), HasSubstr("MODEL_PARALLEL would take "));
  EXPECT_THAT(report.explanation(), HasSubstr("HYBRID would take "));
}

TEST(ForecastTest, AutoTakesAPipelineForAModelThatFitsNoWorker) {
  // The model needs over 8 MiB on one worker; two blocks with 2 in flight need 4.
  const v1::PlanReport report =
      MakeForecasts(JobOf(8, 8, 4, v1::AUTO), Layout(8), LimitedCluster(3, 7 * kMebibyte), {});
  EXPECT_EQ(Chosen(report), v1::MODEL_PARALLEL);
  EXPECT_EQ(report.forecast(0).obstacle(), "worker w-2 needs 8.2 MiB, its limit is 7.0 MiB");
  EXPECT_THAT(
      report.explanation(),
      HasSubstr("DATA_PARALLEL cannot run: worker w-2 needs 8.2 MiB, its limit is 7.0 MiB"));
  EXPECT_THAT(report.explanation(), HasSubstr("HYBRID cannot run: found 3 workers, expected at "
                                              "least 4: 2 pipelines of 2 workers"));
}

TEST(ForecastTest, AutoTakesPipelinesOfTwoWhenTwoHoldTheModel) {
  const v1::PlanReport report =
      MakeForecasts(JobOf(32, 32, 8, v1::AUTO), Layout(8), LimitedCluster(8, 7 * kMebibyte), {});
  EXPECT_FALSE(report.forecast(0).fits());
  EXPECT_EQ(Chosen(report), v1::HYBRID);
  EXPECT_EQ(report.forecast(2).ranks(), 2u);
  EXPECT_EQ(report.forecast(2).replicas(), 4u);
}

TEST(ForecastTest, AutoTakesAPipelineWhenTheLinksAreTooSlowForAllGradients) {
  const v1::ModelLayout layout =
      ChainLayout(10, std::vector<BlockSizes>(4, {10, 1000000, 1000000, 1000, 0}));
  v1::ClusterFacts cluster = ClusterOf(2);
  EXPECT_EQ(Chosen(MakeForecasts(JobOf(64, 16, 8, v1::AUTO), layout, cluster, {})),
            v1::DATA_PARALLEL);
  cluster.set_link_bytes_per_second(10e6);
  EXPECT_EQ(Chosen(MakeForecasts(JobOf(64, 16, 8, v1::AUTO), layout, cluster, {})),
            v1::MODEL_PARALLEL);
}

TEST(ForecastTest, NothingIsChosenWhenNothingFits) {
  v1::PlanReport report =
      MakeForecasts(JobOf(8, 8, 4, v1::AUTO), Layout(4), LimitedCluster(4, kMebibyte), {});
  EXPECT_FALSE(report.feasible());
  EXPECT_THAT(report.explanation(), HasSubstr("DATA_PARALLEL cannot run: worker w-0 needs "));
  EXPECT_THAT(report.explanation(), HasSubstr("; MODEL_PARALLEL cannot run: worker w-0 needs "));
  EXPECT_THAT(report.explanation(), HasSubstr("; HYBRID cannot run: worker w-"));
  EXPECT_THAT(report.explanation(), HasSubstr("its limit is 1.0 MiB"));

  // Only what the job asked for counts.
  report = MakeForecasts(JobOf(8, 8, 4, v1::DATA_PARALLEL), Layout(8),
                         LimitedCluster(3, 7 * kMebibyte), {});
  EXPECT_FALSE(report.feasible());
  EXPECT_TRUE(report.forecast(1).fits()) << report.forecast(1).obstacle();
  EXPECT_THAT(report.explanation(), HasSubstr("DATA_PARALLEL cannot run: worker w-2 needs "));
  EXPECT_EQ(report.explanation().find("MODEL_PARALLEL"), std::string::npos);
}

TEST(ForecastTest, WorkersBeyondTheBlocksOrTheSharesAreIdle) {
  const v1::PlanReport report =
      MakeForecasts(JobOf(8, 8, 2, v1::MODEL_PARALLEL), Layout(3), ClusterOf(5), {});
  EXPECT_EQ(report.forecast(0).replicas(), 2u);
  EXPECT_EQ(report.forecast(0).idle_workers(), 3u);
  EXPECT_EQ(Chosen(report), v1::MODEL_PARALLEL);
  EXPECT_EQ(report.forecast(1).ranks(), 3u);
  EXPECT_EQ(report.forecast(1).idle_workers(), 2u);
  EXPECT_EQ(report.forecast(2).ranks(), 2u);
  EXPECT_EQ(report.forecast(2).idle_workers(), 1u);
}

TEST(ForecastTest, TheNumberOfWorkersOfAPipelineIsTheUsersIfGiven) {
  v1::JobSpec spec = JobOf(8, 8, 4, v1::MODEL_PARALLEL);
  spec.mutable_pipeline()->set_workers(3);
  v1::PlanReport report = MakeForecasts(spec, Layout(4), ClusterOf(6), {});
  EXPECT_EQ(report.forecast(1).ranks(), 3u);
  EXPECT_EQ(report.forecast(1).idle_workers(), 3u);
  EXPECT_EQ(report.forecast(2).ranks(), 3u);
  EXPECT_EQ(report.forecast(2).replicas(), 2u);

  spec.mutable_pipeline()->set_workers(5);
  report = MakeForecasts(spec, Layout(4), ClusterOf(6), {});
  EXPECT_FALSE(report.feasible());
  EXPECT_EQ(report.explanation(),
            "MODEL_PARALLEL cannot run: found 4 blocks, expected at least 5 for 5 workers with 1 "
            "stage on each");
  spec.mutable_pipeline()->set_workers(7);
  report = MakeForecasts(spec, Layout(8), ClusterOf(6), {});
  EXPECT_EQ(report.forecast(1).obstacle(),
            "found 6 workers, expected at least 7: 1 pipeline of 7 workers");
}

TEST(ForecastTest, PipelinesNeedTwoWorkersAndHybridsTwoShares) {
  v1::PlanReport report = MakeForecasts(JobOf(8, 8, 4, v1::AUTO), Layout(4), ClusterOf(1), {});
  EXPECT_EQ(Chosen(report), v1::DATA_PARALLEL);
  EXPECT_EQ(report.forecast(1).obstacle(),
            "found 1 workers, expected at least 2: 1 pipeline of 2 workers");
  report = MakeForecasts(JobOf(8, 8, 1, v1::AUTO), Layout(4), ClusterOf(4), {});
  EXPECT_EQ(report.forecast(2).obstacle(),
            "batch.shares: found 1, expected at least 2: one for each pipeline");
  report = MakeForecasts(JobOf(8, 8, 1, v1::HYBRID), Layout(4), ClusterOf(4), {});
  EXPECT_EQ(Chosen(report), v1::HYBRID);
  EXPECT_EQ(report.forecast(2).replicas(), 1);
  EXPECT_EQ(report.forecast(2).idle_workers(), 2);
  report = MakeForecasts(JobOf(8, 8, 4, v1::MODEL_PARALLEL), Layout(1), ClusterOf(4), {});
  EXPECT_EQ(report.forecast(1).obstacle(),
            "found 1 block, expected at least 2 for 2 workers with 1 stage on each");
}

TEST(ForecastTest, CutsByHandSayHowManyWorkersAPipelineHas) {
  v1::JobSpec spec = JobOf(8, 8, 4, v1::MODEL_PARALLEL);
  spec.mutable_pipeline()->set_schedule(v1::INTERLEAVED);
  for (const char* cut : {"b1", "b2", "b3"}) spec.mutable_pipeline()->add_cut(cut);
  v1::PlanReport report = MakeForecasts(spec, Layout(8), ClusterOf(4), {});
  EXPECT_EQ(Chosen(report), v1::MODEL_PARALLEL);
  EXPECT_EQ(report.forecast(1).ranks(), 2u);
  EXPECT_EQ(report.forecast(1).chunks(), 2u);
  EXPECT_EQ(report.forecast(1).idle_workers(), 2u);
  EXPECT_EQ(report.forecast(2).ranks(), 2u);
  EXPECT_EQ(report.forecast(2).replicas(), 2u);

  spec.mutable_pipeline()->set_workers(3);
  report = MakeForecasts(spec, Layout(8), ClusterOf(4), {});
  EXPECT_EQ(report.forecast(1).obstacle(),
            "pipeline.cut: found 3 cuts, which make 4 stages, expected 6 stages for 3 workers "
            "with 2 on each");
  spec.mutable_pipeline()->clear_workers();
  spec.mutable_pipeline()->add_cut("b4");
  report = MakeForecasts(spec, Layout(8), ClusterOf(4), {});
  EXPECT_EQ(report.forecast(1).obstacle(),
            "pipeline.cut: found 4 cuts, which make 5 stages, expected a multiple of 2 with 2 on "
            "each");
}

TEST(ForecastTest, InterleavedHasTwoStagesOnEachWorkerByDefault) {
  v1::JobSpec spec = JobOf(8, 8, 4, v1::MODEL_PARALLEL);
  spec.mutable_pipeline()->set_schedule(v1::INTERLEAVED);
  v1::PlanReport report = MakeForecasts(spec, Layout(7), ClusterOf(4), {});
  EXPECT_EQ(report.forecast(1).chunks(), 2u);
  EXPECT_EQ(report.forecast(1).ranks(), 3u);  // 7 blocks make 3 times 2 stages
  EXPECT_EQ(report.forecast(1).stage_size(), 6);
  spec.mutable_pipeline()->set_interleave(3);
  report = MakeForecasts(spec, Layout(7), ClusterOf(4), {});
  EXPECT_EQ(report.forecast(1).chunks(), 3u);
  EXPECT_EQ(report.forecast(1).ranks(), 2u);
}

TEST(ForecastTest, MeasuredTimesMoveTheCut) {
  std::vector<v1::BlockTime> times(4);
  for (uint32_t b = 0; b < 4; ++b) {
    times[b].set_block(b);
    times[b].set_samples(1);
    times[b].set_forward_seconds(b == 0 ? 3 : 1);
    times[b].set_backward_seconds(b == 0 ? 6 : 2);
  }
  const v1::PlanReport report =
      MakeForecasts(JobOf(8, 8, 4, v1::MODEL_PARALLEL), Layout(4), ClusterOf(2), times);
  EXPECT_TRUE(report.measured());
  EXPECT_EQ(report.forecast(1).stage(0).block_count(), 1u);
  EXPECT_DOUBLE_EQ(report.forecast(1).stage(0).forward_seconds(), 3);
}

TEST(ForecastTest, WithoutWorkersThereIsNothingToForecast) {
  const v1::PlanReport report =
      MakeForecasts(JobOf(8, 8, 4, v1::AUTO), Layout(4), ClusterOf(0), {});
  EXPECT_FALSE(report.feasible());
  EXPECT_EQ(report.forecast_size(), 0);
  EXPECT_EQ(report.explanation(), "there are 0 workers, expected at least 1");
}

}  // namespace
}  // namespace sangam
