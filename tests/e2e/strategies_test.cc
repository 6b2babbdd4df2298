// One job, one result, across strategies and schedules: the same job gives the same bytes of
// model.safetensors on one worker, data parallel, as a pipeline under each schedule and as a
// hybrid. Real daemons, started by `sangam run`.
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "tests/e2e/spread_job.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

class StrategiesTest : public ::testing::TestWithParam<std::tuple<Model, int>> {
 protected:
  void SetUp() override {
    data_ = FreshFolder("data");
    WriteSpreadData(data_);
  }

  // Runs the job and returns the bytes of its weights.
  std::string Weights(const Spread& spread) {
    const auto [model, micro_batches] = GetParam();
    return WeightsOf(JobText(model, micro_batches, spread), spread);
  }

  std::string WeightsOf(const std::string& job, const Spread& spread) {
    return testing::WeightsOf(job, data_, spread);
  }

  void ExpectOneResult(const std::vector<Spread>& spreads) {
    const std::string alone = Weights({});
    ASSERT_FALSE(alone.empty());
    for (const Spread& spread : spreads) {
      EXPECT_TRUE(Weights(spread) == alone) << "other weights: " << spread.Label();
    }
  }

  std::string data_;
};

// Pages of one segment come and go while its block is computed.
class WideBlocksTest : public StrategiesTest {};

TEST_P(WideBlocksTest, PagesThatTravelBesideTheirPassesChangeNothing) {
  ExpectOneResult({{1, "DATA_PARALLEL", "", 0, false, /*threads=*/2},
                   {1, "DATA_PARALLEL", "", 0, false, /*threads=*/1, /*servers=*/3},
                   {2, "DATA_PARALLEL", "", 0, false, /*threads=*/1, /*servers=*/2},
                   {3, "DATA_PARALLEL", ""},
                   {2, "MODEL_PARALLEL", "ONE_F_ONE_B"},
                   {2, "MODEL_PARALLEL", "ZERO_BUBBLE", 0, false, /*threads=*/1, /*servers=*/2},
                   {4, "MODEL_PARALLEL", "GPIPE"},
                   {4, "HYBRID", "ONE_F_ONE_B", 2}});
}

INSTANTIATE_TEST_SUITE_P(All, WideBlocksTest,
                         ::testing::Combine(::testing::Values(Model::kWide),
                                            ::testing::Values(1, 2, 8)),
                         [](const auto& info) {
                           return absl::StrCat("With", std::get<1>(info.param), "MicroBatches");
                         });

TEST_P(StrategiesTest, DataParallelAndHybrid) {
  ExpectOneResult({{2, "DATA_PARALLEL", ""},
                   {3, "DATA_PARALLEL", ""},
                   {2, "DATA_PARALLEL", "", 0, /*served=*/true},
                   {3, "DATA_PARALLEL", "", 0, false, /*threads=*/1, /*servers=*/3},
                   {4, "HYBRID", "ONE_F_ONE_B", 2, false, /*threads=*/1, /*servers=*/3},
                   {4, "HYBRID", "ZERO_BUBBLE", 2, /*served=*/true},
                   {4, "HYBRID", "INTERLEAVED", 2, false, /*threads=*/2},
                   {3, "AUTO", ""}});
}

TEST_P(StrategiesTest, PipelineOfTwo) {
  ExpectOneResult(
      {{2, "MODEL_PARALLEL", "GPIPE"},
       {2, "MODEL_PARALLEL", "ONE_F_ONE_B"},
       {2, "MODEL_PARALLEL", "INTERLEAVED"},
       {2, "MODEL_PARALLEL", "ZERO_BUBBLE"},
       {2, "MODEL_PARALLEL", "EAGER_ONE_F_ONE_B", 0, false, /*threads=*/1, /*servers=*/3},
       {2, "MODEL_PARALLEL", "ONE_F_ONE_B", 0, false, /*threads=*/2}});
}

TEST_P(StrategiesTest, PipelineOfThree) {
  ExpectOneResult({{3, "MODEL_PARALLEL", "GPIPE"},
                   {3, "MODEL_PARALLEL", "ONE_F_ONE_B", 0, /*served=*/true},
                   {3, "MODEL_PARALLEL", "INTERLEAVED"},
                   {3, "MODEL_PARALLEL", "ZERO_BUBBLE", 0, false, /*threads=*/1, /*servers=*/3},
                   {3, "MODEL_PARALLEL", "EAGER_ONE_F_ONE_B"}});
}

TEST_P(StrategiesTest, PipelineOfFour) {
  ExpectOneResult({{4, "MODEL_PARALLEL", "GPIPE"},
                   {4, "MODEL_PARALLEL", "ONE_F_ONE_B"},
                   {4, "MODEL_PARALLEL", "INTERLEAVED"},
                   {4, "MODEL_PARALLEL", "ZERO_BUBBLE"},
                   {4, "MODEL_PARALLEL", "EAGER_ONE_F_ONE_B"}});
}

// Else the tests above would not see whether these spread well.
TEST_P(StrategiesTest, ClippingAndScheduleCount) {
  const auto [model, micro_batches] = GetParam();
  if (model != Model::kCnn) GTEST_SKIP() << "only the CNN's job has both";
  const std::string job = JobText(model, micro_batches, {});
  const std::string alone = Weights({});
  for (const char* part : {kClipping, kSchedule}) {
    const std::string without = absl::StrReplaceAll(job, {{part, ""}});
    EXPECT_FALSE(WeightsOf(without, {}) == alone) << part << " changes nothing";
  }
}

TEST_P(StrategiesTest, Bf16GivesOneResultOfItsOwn) {
  const auto [model, micro_batches] = GetParam();
  if (micro_batches != 8) GTEST_SKIP() << "one cut is enough";
  const auto weights = [&, model = model, micro_batches = micro_batches](const Spread& spread) {
    return WeightsOf(absl::StrCat(JobText(model, micro_batches, spread), "precision: BF16\n"),
                     spread);
  };
  const std::string alone = weights({});
  EXPECT_TRUE(weights({3, "DATA_PARALLEL", ""}) == alone);
  EXPECT_TRUE(weights({3, "MODEL_PARALLEL", "ZERO_BUBBLE"}) == alone);
  EXPECT_FALSE(Weights({}) == alone) << "the precision changes nothing";
}

std::string CaseName(const ::testing::TestParamInfo<std::tuple<Model, int>>& info) {
  return absl::StrCat(Name(std::get<0>(info.param)), "With", std::get<1>(info.param),
                      "MicroBatches");
}

INSTANTIATE_TEST_SUITE_P(All, StrategiesTest,
                         ::testing::Combine(::testing::Values(Model::kMlp, Model::kGpt),
                                            ::testing::Values(1, 2, 3, 8, 32)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Images, StrategiesTest,
                         ::testing::Combine(::testing::Values(Model::kCnn),
                                            ::testing::Values(1, 3, 8)),
                         CaseName);

}  // namespace
}  // namespace sangam::testing
