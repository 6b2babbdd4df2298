#include "common/plan/strategy_forecast.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/plan/batch_cut.h"
#include "common/plan/cost_model.h"
#include "common/plan/plan_shape.h"
#include "common/plan/schedule.h"
#include "common/plan/schedule_check.h"
#include "common/plan/worker_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "tests/common/plan/plan_fixtures.h"

namespace sangam {
namespace {

using testing::BlockSizes;
using testing::ChainLayout;
using testing::ClusterOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::JobOf;
using testing::WorkersOf;

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// 1 ms for each forward of a sample, 1 MiB of activations; small messages and parameters.
constexpr BlockSizes kBlock = {10, 1000, 1000000, kMebibyte, 0};

v1::ModelLayout Layout(uint32_t blocks) {
  return ChainLayout(10, std::vector<BlockSizes>(blocks, kBlock));
}

v1::StrategyForecast Forecast(const v1::JobSpec& spec, const v1::ModelLayout& layout,
                              const v1::ClusterFacts& cluster, const Spread& spread) {
  const CostModel costs(layout, spec.model(), cluster, {});
  return ForecastStrategy({spec, layout, cluster, costs}, spread);
}

std::vector<uint32_t> Counts(const v1::StrategyForecast& forecast) {
  std::vector<uint32_t> counts;
  for (const v1::StageForecast& stage : forecast.stage()) counts.push_back(stage.block_count());
  return counts;
}

constexpr Spread kTwoStages = {v1::MODEL_PARALLEL, 2, 1, 1};

TEST(StrategyForecastTest, DataParallelTakesTheSlowestWorkersTimeAndThatOfItsParameters) {
  const v1::JobSpec spec = JobOf(8, 8, 4);
  const v1::ClusterFacts cluster = ClusterOf(3);
  const v1::StrategyForecast forecast =
      Forecast(spec, Layout(4), cluster, {v1::DATA_PARALLEL, 1, 2, 1});
  EXPECT_TRUE(forecast.fits()) << forecast.obstacle();
  EXPECT_EQ(forecast.obstacle(), "");
  EXPECT_EQ(forecast.ranks(), 1u);
  EXPECT_EQ(forecast.replicas(), 2u);
  EXPECT_EQ(forecast.idle_workers(), 1u);
  EXPECT_EQ(forecast.lanes(), 0u);
  EXPECT_EQ(forecast.credits(), 1u);
  EXPECT_EQ(forecast.parameter_wire_bytes(), 2u * 2 * 4000 * 4);
  EXPECT_EQ(forecast.activation_wire_bytes(), 0u);
  // 4 micro-batches of one sample: 11 ms each, as the first block needs no gradient of its input.
  EXPECT_NEAR(forecast.step_seconds(), 4 * 11e-3 + kMessageSeconds + 64e-6, 1e-9);
  EXPECT_EQ(forecast.bubble(), 0);
  ASSERT_EQ(forecast.stage_size(), 1);
  EXPECT_THAT(forecast.stage(0).worker(), ElementsAre("w-0", "w-1"));
  EXPECT_EQ(forecast.stage(0).parameter_count(), 4000u);
  EXPECT_EQ(forecast.stage(0).in_flight(), 1u);
  EXPECT_EQ(forecast.stage(0).output_bytes(), 0u);
}

TEST(StrategyForecastTest, DataParallelUsesTheThreadsOfEachWorker) {
  v1::ClusterFacts cluster = ClusterOf(2);
  cluster.mutable_worker(0)->set_threads(2);
  cluster.mutable_worker(1)->set_threads(64);
  const v1::StrategyForecast forecast =
      Forecast(JobOf(8, 8, 8), Layout(1), cluster, {v1::DATA_PARALLEL, 1, 2, 1});
  // w-0 has 2 micro-batches on each of its lanes, w-1 one on each of 4.
  EXPECT_NEAR(forecast.step_seconds(), 2 * 2e-3 + kMessageSeconds + 16e-6, 1e-9);
  EXPECT_EQ(forecast.stage(0).in_flight(), 4u);
}

TEST(StrategyForecastTest, APipelineIsCutEvenlyAndItsStagesAreDescribed) {
  const v1::StrategyForecast forecast =
      Forecast(JobOf(16, 8, 4), Layout(4), ClusterOf(2), kTwoStages);
  EXPECT_TRUE(forecast.fits()) << forecast.obstacle();
  ASSERT_THAT(Counts(forecast), ElementsAre(2, 2));
  EXPECT_EQ(forecast.schedule(), v1::ONE_F_ONE_B);
  EXPECT_EQ(forecast.lanes(), 1u);
  EXPECT_GE(forecast.credits(), 1u);
  EXPECT_EQ(forecast.idle_workers(), 0u);
  const v1::StageForecast& first = forecast.stage(0);
  EXPECT_EQ(first.first_block_name(), "b0");
  EXPECT_EQ(first.last_block_name(), "b1");
  EXPECT_THAT(first.worker(), ElementsAre("w-0"));
  EXPECT_EQ(first.parameter_count(), 2000u);
  EXPECT_NEAR(first.forward_seconds(), 2 * 2e-3, 1e-12);
  EXPECT_NEAR(first.backward_seconds(), 2 * 3e-3, 1e-12);
  EXPECT_EQ(first.in_flight(), 2u);
  EXPECT_EQ(first.output_bytes(), 2u * 10 * 4);
  EXPECT_EQ(forecast.stage(1).first_block(), 2u);
  EXPECT_EQ(forecast.stage(1).in_flight(), 1u);
  EXPECT_EQ(forecast.activation_wire_bytes(), 2u * 16 * 10 * 4);
  EXPECT_EQ(forecast.parameter_wire_bytes(), 2u * 4000 * 4);
  // 8 times the slower stage, and the faster one in front and behind.
  EXPECT_GT(forecast.step_seconds(), 8 * 12e-3 + 10e-3);
  EXPECT_LT(forecast.step_seconds(), 8 * 12e-3 + 10e-3 + 20 * kMessageSeconds);
  EXPECT_GT(forecast.bubble(), 0.05);
  EXPECT_LT(forecast.bubble(), 0.25);
}

TEST(StrategyForecastTest, AFasterWorkerGetsMoreBlocks) {
  v1::ClusterFacts cluster = ClusterOf(2);
  cluster.mutable_worker(1)->set_flops_per_second(3e9);
  EXPECT_THAT(Counts(Forecast(JobOf(8, 8, 4), Layout(8), cluster, kTwoStages)), ElementsAre(2, 6));
  // In another pipeline a slow worker of that rank undoes it.
  cluster = ClusterOf(4);
  cluster.mutable_worker(1)->set_flops_per_second(3e9);
  EXPECT_THAT(Counts(Forecast(JobOf(8, 8, 4), Layout(8), cluster, {v1::HYBRID, 2, 2, 1})),
              ElementsAre(4, 4));
}

TEST(StrategyForecastTest, ALimitOfMemoryMovesTheCut) {
  v1::ClusterFacts cluster = ClusterOf(2);
  EXPECT_THAT(Counts(Forecast(JobOf(8, 8, 4), Layout(4), cluster, kTwoStages)), ElementsAre(2, 2));
  // Two micro-batches in flight of 2 blocks need over 4 MiB.
  cluster.mutable_worker(0)->set_memory_bytes(3 * kMebibyte);
  const v1::StrategyForecast forecast = Forecast(JobOf(8, 8, 4), Layout(4), cluster, kTwoStages);
  EXPECT_TRUE(forecast.fits()) << forecast.obstacle();
  EXPECT_THAT(Counts(forecast), ElementsAre(1, 3));
  EXPECT_LE(forecast.stage(0).memory_bytes(), 3 * kMebibyte);
  EXPECT_EQ(forecast.stage(0).memory_limit_bytes(), 3 * kMebibyte);
  EXPECT_EQ(forecast.stage(1).memory_limit_bytes(), 0u);
}

TEST(StrategyForecastTest, WhatFitsNoCutIsRefusedWithBothNumbersOfTheLeanestOne) {
  v1::ClusterFacts cluster = ClusterOf(2);
  cluster.mutable_worker(0)->set_memory_bytes(3 * kMebibyte);
  cluster.mutable_worker(1)->set_memory_bytes(2 * kMebibyte);
  const v1::StrategyForecast forecast = Forecast(JobOf(8, 8, 4), Layout(4), cluster, kTwoStages);
  EXPECT_FALSE(forecast.fits());
  // {1,3} would exceed the limit of w-1 by more.
  EXPECT_EQ(forecast.obstacle(), "worker w-0 needs 4.1 MiB, its limit is 3.0 MiB");
  EXPECT_THAT(Counts(forecast), ElementsAre(2, 2));
  EXPECT_GT(forecast.memory_bytes(), forecast.memory_limit_bytes());
  EXPECT_EQ(forecast.memory_limit_bytes(), 3 * kMebibyte);
  // Numbers are there for people all the same.
  EXPECT_GT(forecast.step_seconds(), 0);

  cluster.mutable_worker(1)->set_memory_bytes(64 * kMebibyte);
  const v1::StrategyForecast data =
      Forecast(JobOf(8, 8, 4), Layout(4), cluster, {v1::DATA_PARALLEL, 1, 2, 1});
  EXPECT_FALSE(data.fits());
  EXPECT_EQ(data.obstacle(), "worker w-0 needs 4.1 MiB, its limit is 3.0 MiB");
}

TEST(StrategyForecastTest, LanesAreThreadsAndSharesAtMostAndFewerWhenMemoryIsShort) {
  v1::ClusterFacts cluster = ClusterOf(2);
  for (v1::WorkerFacts& worker : *cluster.mutable_worker()) worker.set_threads(6);
  EXPECT_EQ(Forecast(JobOf(8, 8, 8), Layout(4), cluster, kTwoStages).lanes(), 6u);
  cluster.mutable_worker(1)->set_threads(4);
  EXPECT_EQ(Forecast(JobOf(8, 8, 8), Layout(4), cluster, kTwoStages).lanes(), 4u);
  EXPECT_EQ(Forecast(JobOf(8, 8, 2), Layout(4), cluster, kTwoStages).lanes(), 2u);
  // Four lanes of 2 blocks with 2 micro-batches in flight need 16 MiB.
  for (v1::WorkerFacts& worker : *cluster.mutable_worker()) worker.set_memory_bytes(9 * kMebibyte);
  const v1::StrategyForecast forecast = Forecast(JobOf(8, 8, 8), Layout(4), cluster, kTwoStages);
  EXPECT_TRUE(forecast.fits()) << forecast.obstacle();
  EXPECT_EQ(forecast.lanes(), 2u);
  EXPECT_EQ(forecast.stage(0).in_flight(), 4u);
}

TEST(StrategyForecastTest, TooFewCreditsAreRefusedWithTheNumberThatIsNeeded) {
  v1::JobSpec spec = JobOf(7, 7, 1);
  spec.mutable_pipeline()->set_schedule(v1::INTERLEAVED);
  spec.mutable_pipeline()->set_credits(1);
  const Spread spread = {v1::MODEL_PARALLEL, 3, 1, 2};
  v1::StrategyForecast forecast = Forecast(spec, Layout(6), ClusterOf(3), spread);
  EXPECT_FALSE(forecast.fits());
  EXPECT_EQ(forecast.obstacle(),
            "pipeline.credits: found 1, expected at least 2 for INTERLEAVED with 3 workers and 2 "
            "stages on each");
  spec.mutable_pipeline()->set_credits(2);
  forecast = Forecast(spec, Layout(6), ClusterOf(3), spread);
  EXPECT_TRUE(forecast.fits()) << forecast.obstacle();
  EXPECT_EQ(forecast.credits(), 2u);
  spec.mutable_pipeline()->clear_credits();
  forecast = Forecast(spec, Layout(6), ClusterOf(3), spread);
  EXPECT_TRUE(forecast.fits()) << forecast.obstacle();
  EXPECT_GE(forecast.credits(), 2u);
}

// Lanes do nothing for micro-batches without samples, which a short last batch of an epoch can
// have; what is left of the schedule must do with the credits of the whole.
TEST(StrategyForecastTest, AStepWithFewerSamplesThanMicroBatchesNeedsNoMoreCredits) {
  const auto least = [](const ScheduleShape& shape, uint64_t samples) {
    std::vector<uint32_t> kept(shape.micro_batches, UINT32_MAX);
    SchedulePlay play;
    play.ranks = shape.ranks;
    play.chunks = shape.chunks;
    play.micro_batches = 0;
    for (uint32_t m = 0; m < shape.micro_batches; ++m) {
      if (EvenPart(samples, shape.micro_batches, m).size() > 0) kept[m] = play.micro_batches++;
    }
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      std::vector<Pass>& passes = play.passes.emplace_back();
      for (Pass pass : RankPasses(shape, rank)) {
        pass.micro_batch = kept[pass.micro_batch];
        if (pass.micro_batch != UINT32_MAX) passes.push_back(pass);
      }
    }
    const auto credits = LeastCredits(play);
    EXPECT_TRUE(credits.ok()) << credits.status();
    return credits.value_or(UINT32_MAX);
  };
  for (uint32_t ranks = 2; ranks <= 5; ++ranks) {
    for (uint32_t m = 2; m <= 16; ++m) {
      for (const v1::Schedule schedule :
           {v1::GPIPE, v1::ONE_F_ONE_B, v1::ZERO_BUBBLE, v1::INTERLEAVED}) {
        const ScheduleShape shape = {schedule, ranks, schedule == v1::INTERLEAVED ? 2u : 1u, m};
        const uint32_t whole = least(shape, m);
        for (uint32_t samples = 1; samples < m; ++samples) {
          ASSERT_LE(least(shape, samples), whole) << schedule << " " << ranks << " " << m;
        }
      }
    }
  }
}

TEST(StrategyForecastTest, CreditsShrinkBeforeTheMemoryIsExceeded) {
  // Messages of 1 MiB and hardly any other memory; a slow second stage.
  v1::ModelLayout layout = ChainLayout(1, {{kMebibyte / 4, 1, 1000, 0, 0}, {1, 1, 9000, 0, 0}});
  v1::JobSpec spec = JobOf(8, 8, 1);
  spec.mutable_pipeline()->set_schedule(v1::GPIPE);
  v1::ClusterFacts cluster = ClusterOf(2);
  const uint32_t ample = Forecast(spec, layout, cluster, kTwoStages).credits();
  ASSERT_GT(ample, 1u);
  // With one credit it keeps 8 + 2 tensors.
  cluster.mutable_worker(1)->set_memory_bytes(10 * kMebibyte + kMebibyte / 2);
  const v1::StrategyForecast tight = Forecast(spec, layout, cluster, kTwoStages);
  EXPECT_TRUE(tight.fits()) << tight.obstacle();
  EXPECT_EQ(tight.credits(), 1u);
}

TEST(StrategyForecastTest, FewerMicroBatchesThanWorkersAndRaggedOnesArePlanned) {
  for (const v1::Schedule schedule :
       {v1::GPIPE, v1::ONE_F_ONE_B, v1::INTERLEAVED, v1::ZERO_BUBBLE, v1::EAGER_ONE_F_ONE_B}) {
    for (const uint32_t micro_batches : {1u, 2u, 3u, 5u, 7u}) {
      v1::JobSpec spec = JobOf(13, micro_batches, (micro_batches + 1) / 2);
      spec.mutable_pipeline()->set_schedule(schedule);
      v1::ClusterFacts cluster = ClusterOf(4);
      for (v1::WorkerFacts& worker : *cluster.mutable_worker()) worker.set_threads(2);
      const Spread spread = {v1::MODEL_PARALLEL, 4, 1, schedule == v1::INTERLEAVED ? 2u : 1u};
      const v1::StrategyForecast forecast = Forecast(spec, Layout(9), cluster, spread);
      EXPECT_TRUE(forecast.fits()) << forecast.obstacle();
      EXPECT_EQ(forecast.schedule(), schedule);
      EXPECT_GT(forecast.step_seconds(), 0);
      EXPECT_GE(forecast.bubble(), 0);
      EXPECT_LT(forecast.bubble(), 1);
    }
  }
}

TEST(StrategyForecastTest, HandMadeCutsAreTakenAsTheyAre) {
  v1::JobSpec spec = JobOf(8, 8, 4);
  spec.mutable_pipeline()->add_cut("b3");
  EXPECT_THAT(Counts(Forecast(spec, Layout(4), ClusterOf(2), kTwoStages)), ElementsAre(3, 1));
  spec.mutable_pipeline()->set_cut(0, "x");
  const v1::StrategyForecast forecast = Forecast(spec, Layout(4), ClusterOf(2), kTwoStages);
  EXPECT_FALSE(forecast.fits());
  EXPECT_THAT(forecast.obstacle(), HasSubstr("pipeline.cut[0]: found \"x\""));
}

TEST(StrategyForecastTest, AStageMayBeginInFrontOfAWideOutputWhenItCannotBehind) {
  v1::ModelLayout layout = ChainLayout(1, {{1, 0, 1000, 0, 0},
                                           {kMebibyte / 4, 0, 1000, 0, 0},
                                           {1, 0, 1000, 4 * kMebibyte, 0},
                                           {1, 0, 1000, 0, 0}});
  v1::ClusterFacts cluster = ClusterOf(2);
  // Two of b2 do not fit into w-0; b2 and three outputs of b1 do not fit into w-1.
  cluster.mutable_worker(0)->set_memory_bytes(7 * kMebibyte);
  cluster.mutable_worker(1)->set_memory_bytes(6 * kMebibyte);
  const v1::StrategyForecast forecast = Forecast(JobOf(8, 8, 1), layout, cluster, kTwoStages);
  EXPECT_TRUE(forecast.fits()) << forecast.obstacle();
  EXPECT_THAT(Counts(forecast), ElementsAre(1, 3));
}

// Cuts of b blocks into `stages` stages, as JobSpec.pipeline.cut.
std::vector<std::vector<std::string>> AllCuts(uint32_t blocks, uint32_t stages) {
  std::vector<std::vector<std::string>> cuts;
  for (uint32_t mask = 0; mask < (1u << (blocks - 1)); ++mask) {
    std::vector<std::string>& cut = cuts.emplace_back();
    for (uint32_t b = 1; b < blocks; ++b) {
      if ((mask >> (b - 1) & 1) != 0) cut.push_back("b" + std::to_string(b));
    }
    if (cut.size() + 1 != stages) cuts.pop_back();
  }
  return cuts;
}

// Skip connections make the credits depend on the cut, so that a few are missed.
TEST(StrategyForecastTest, FindsACutThatFitsWhereThereIsOne) {
  std::mt19937 random(11);
  int found = 0;
  int missed = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<BlockSizes> blocks(7);
    for (BlockSizes& sizes : blocks) {
      sizes = {100, 0, 1000 + random() % 5000, random() % 10 * 100, 0};
    }
    v1::ModelLayout layout = ChainLayout(100, blocks);
    const uint32_t from = random() % 3;
    layout.mutable_block(static_cast<int>(from + 2 + random() % (5 - from)))->set_skip_from(from);
    v1::ClusterFacts cluster = ClusterOf(4);
    for (v1::WorkerFacts& worker : *cluster.mutable_worker()) {
      worker.set_memory_bytes(5000 + random() % 10000);
    }
    v1::JobSpec spec = JobOf(8, 8, 1);
    bool possible = false;
    const Spread spread = {v1::MODEL_PARALLEL, 4, 1, 1};
    for (const std::vector<std::string>& cut : AllCuts(7, 4)) {
      spec.mutable_pipeline()->mutable_cut()->Assign(cut.begin(), cut.end());
      possible = possible || Forecast(spec, layout, cluster, spread).fits();
    }
    spec.mutable_pipeline()->clear_cut();
    const v1::StrategyForecast forecast = Forecast(spec, layout, cluster, spread);
    EXPECT_LE(forecast.fits(), possible) << trial;
    if (possible) ++(forecast.fits() ? found : missed);
  }
  EXPECT_GT(found, 100);
  EXPECT_LT(missed, found / 10);
}

TEST(StrategyForecastTest, InterleavedStagesAreCutForMemoryWhenTheFastestCutDoesNotFit) {
  std::vector<BlockSizes> blocks(8, kBlock);
  for (const uint32_t b : {4u, 5u}) blocks[b].activation_bytes = 4 * kMebibyte;
  const v1::ModelLayout layout = ChainLayout(10, blocks);
  v1::JobSpec spec = JobOf(8, 8, 1);
  spec.mutable_pipeline()->set_schedule(v1::INTERLEAVED);
  const Spread spread = {v1::MODEL_PARALLEL, 2, 1, 2};
  v1::ClusterFacts cluster = ClusterOf(2);
  const v1::StrategyForecast fastest = Forecast(spec, layout, cluster, spread);
  EXPECT_THAT(Counts(fastest), ElementsAre(2, 2, 2, 2));
  for (v1::WorkerFacts& worker : *cluster.mutable_worker()) {
    worker.set_memory_bytes(fastest.memory_bytes() * 9 / 10);
  }
  const v1::StrategyForecast forecast = Forecast(spec, layout, cluster, spread);
  EXPECT_TRUE(forecast.fits()) << forecast.obstacle();
  EXPECT_GE(forecast.step_seconds(), fastest.step_seconds());
}

TEST(StrategyForecastTest, MemoryIsThatOfThePlanThatFollowsFromIt) {
  v1::JobSpec spec = JobOf(20, 10, 5);
  spec.mutable_pipeline()->set_schedule(v1::INTERLEAVED);
  v1::ModelLayout layout = Layout(9);
  layout.mutable_block(7)->set_skip_from(1);
  testing::Tie(8, &layout);
  v1::ClusterFacts cluster = ClusterOf(5);
  for (v1::WorkerFacts& worker : *cluster.mutable_worker()) worker.set_threads(2);
  const v1::StrategyForecast forecast = Forecast(spec, layout, cluster, {v1::HYBRID, 2, 2, 2});
  EXPECT_TRUE(forecast.fits()) << forecast.obstacle();
  EXPECT_EQ(forecast.idle_workers(), 1u);
  const auto plan = SpreadJob(ShapeOf(forecast), WorkersOf(5), spec, layout);
  ASSERT_TRUE(plan.ok()) << plan.status();
  uint64_t most = 0;
  for (uint32_t w = 0; w < 5; ++w) {
    most = std::max(most, MemoryOf(*plan, spec, w, plan->lanes())->total());
  }
  EXPECT_EQ(forecast.memory_bytes(), most);
  for (uint32_t s = 0; s < 4; ++s) {
    std::vector<std::string> names;
    for (const v1::WorkerPlan& worker : plan->worker()) {
      if (worker.rank() == s % 2 && worker.evaluation_parts() > 0) names.push_back(worker.name());
    }
    EXPECT_THAT(forecast.stage(static_cast<int>(s)).worker(), ::testing::ElementsAreArray(names));
  }
}

TEST(StrategyForecastTest, RefusesSchedulesThatWouldTakeTooLongToPlay) {
  const v1::StrategyForecast forecast =
      Forecast(JobOf(1 << 20, 1 << 20, 1), Layout(2), ClusterOf(2), kTwoStages);
  EXPECT_FALSE(forecast.fits());
  EXPECT_THAT(forecast.obstacle(), HasSubstr("batch.micro_batches: found 1048576"));
}

}  // namespace
}  // namespace sangam
