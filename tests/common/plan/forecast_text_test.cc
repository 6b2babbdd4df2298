#include "common/plan/forecast_text.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

TEST(ForecastTextTest, NumbersHaveUnits) {
  EXPECT_EQ(BytesText(1000), "1000 bytes");
  EXPECT_EQ(BytesText(uint64_t{1} << 20), "1.0 MiB");
  EXPECT_EQ(BytesText(432328409), "412.3 MiB");
  EXPECT_EQ(SecondsText(1.25), "1.25 s");
  EXPECT_EQ(SecondsText(0.0123), "12.30 ms");
  EXPECT_EQ(SecondsText(45.6e-6), "45.6 us");
}

TEST(ForecastTextTest, ObstaclesOfMemoryNameBothNumbersSoThatTheyDiffer) {
  EXPECT_EQ(MemoryObstacle("w-1", 432328409, uint64_t{256} << 20),
            "worker w-1 needs 412.3 MiB, its limit is 256.0 MiB");
  EXPECT_EQ(MemoryObstacle("w-1", (uint64_t{256} << 20) + 1, uint64_t{256} << 20),
            "worker w-1 needs 268435457 bytes, its limit is 268435456 bytes");
}

TEST(ForecastTextTest, PipelinesAreNamedByTheirNumbers) {
  EXPECT_EQ(PipelineText(v1::INTERLEAVED, 3, 2), "INTERLEAVED with 3 workers and 2 stages on each");
  EXPECT_EQ(PipelineText(v1::GPIPE, 2, 1), "GPIPE with 2 workers and 1 stage on each");
}

TEST(ForecastTextTest, EveryStrategySaysWhatItSplitsWhatForHowAndHowFar) {
  for (const v1::Strategy strategy : {v1::DATA_PARALLEL, v1::MODEL_PARALLEL, v1::HYBRID}) {
    v1::StrategyForecast forecast;
    forecast.set_strategy(strategy);
    forecast.set_ranks(strategy == v1::DATA_PARALLEL ? 1 : 2);
    forecast.set_replicas(strategy == v1::MODEL_PARALLEL ? 1 : 3);
    forecast.set_chunks(1);
    forecast.set_schedule(v1::ZERO_BUBBLE);
    Describe(8, &forecast);
    EXPECT_NE(forecast.data(), "");
    EXPECT_NE(forecast.purpose(), "");
    EXPECT_NE(forecast.method(), "");
    EXPECT_NE(forecast.scaling(), "");
    if (strategy != v1::MODEL_PARALLEL) {
      EXPECT_THAT(forecast.data(), HasSubstr("8 shares"));
      EXPECT_THAT(forecast.data(), HasSubstr(strategy == v1::HYBRID ? "3 pipelines" : "3 workers"));
    }
    if (strategy != v1::DATA_PARALLEL) {
      EXPECT_THAT(forecast.method(), HasSubstr("ZERO_BUBBLE with 2 workers"));
    }
  }
}

}  // namespace
}  // namespace sangam
