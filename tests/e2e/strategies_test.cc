// One job, one result, across strategies and schedules: the same job gives the same bytes of
// model.safetensors on one worker, data parallel, as a pipeline under each schedule and as a
// hybrid. Real daemons, started by `sangam run`.
#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/cnn_job.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

using ::testing::HasSubstr;

enum class Model { kMlp, kGpt, kCnn };

// How a job is spread; texts as in a job file.
struct Spread {
  int workers = 1;
  std::string strategy = "DATA_PARALLEL";
  std::string schedule;  // of pipelines
  int pipeline_workers = 0;
  bool served = false;
  int threads = 1;
  int servers = 1;

  std::string Label() const {
    return absl::StrCat(strategy, "-", schedule, "-", workers, served ? "-served" : "", "-t",
                        threads, "-s", servers);
  }
};

// Eight blocks, so that four workers can have two stages each; dropout, a skip connection past
// several blocks, one block that recomputes.
std::string MlpModel() {
  std::string text =
      "  input_shape: [28, 28]\n  block { name: \"b0\" layer { flatten {} } layer { "
      "linear { out_features: 24 } } layer { relu {} } }\n";
  for (int b = 1; b < 7; ++b) {
    absl::StrAppend(&text, "  block { name: \"b", b,
                    "\" layer { linear { out_features: 24 } } layer { gelu {} } layer { dropout { "
                    "rate: 0.2 } }",
                    b == 5 ? " add_output_of: \"b1\"" : "", b == 3 ? " recompute: true" : "",
                    " }\n");
  }
  return absl::StrCat(text, "  block { name: \"b7\" layer { linear { out_features: 10 } } }\n");
}

// Tokens, six transformer blocks with dropout, and a head that shares the embedding's table.
std::string GptModel() {
  std::string text =
      "  input_shape: [12]\n  block { name: \"embed\" layer { embedding { vocabulary: 256 width: "
      "16 "
      "} } layer { position_embedding {} } }\n";
  for (int b = 1; b < 7; ++b) {
    absl::StrAppend(&text, "  block { name: \"t", b, "\" layer { transformer { heads: 2 hidden: 32",
                    b % 2 == 0 ? " rotary: true" : "", " dropout: 0.1 } }",
                    b == 2 ? " recompute: true" : "", " }\n");
  }
  return absl::StrCat(text,
                      "  block { name: \"head\" layer { rms_norm {} } layer { tied_head { block: "
                      "\"embed\" } } }\n");
}

// Of the CNN.
constexpr char kClipping[] = "clipping { max_norm: 0.5 }";
constexpr char kSchedule[] = "schedule { cosine {} warmup_steps: 2 }";

std::string ModelText(Model model) {
  switch (model) {
    case Model::kMlp:
      return MlpModel();
    case Model::kGpt:
      return GptModel();
    case Model::kCnn:
      return CnnModel();
  }
  return "";
}

// The CNN's has decisions about the whole step, and a rate of its own for each step.
std::string OptimizerText(Model model) {
  const std::string adamw = "learning_rate: 0.003 adamw {}";
  if (model != Model::kCnn) return adamw;
  return absl::StrCat(adamw, " ", kClipping, " ", kSchedule);
}

std::string Name(Model model) {
  return model == Model::kMlp ? "Mlp" : model == Model::kGpt ? "Gpt" : "Cnn";
}

std::string JobText(Model model, int micro_batches, const Spread& spread) {
  const bool gpt = model == Model::kGpt;
  std::string pipeline;
  if (!spread.schedule.empty()) {
    pipeline = absl::StrCat(
        "pipeline { schedule: ", spread.schedule,
        spread.pipeline_workers > 0 ? absl::StrCat(" workers: ", spread.pipeline_workers) : "",
        " }\n");
  }
  return absl::StrCat(
      "name: \"", Name(model), "\" seed: 7\nmodel {\n", ModelText(model), "}\nloss { ",
      gpt ? "token_cross_entropy" : "softmax_cross_entropy", " {} }\ndata { ",
      gpt ? "text { train: \"text-*.txt\" test: \"test.txt\" }"
          : "idx { train_images: \"train-images\" train_labels: \"train-labels\" test_images: "
            "\"test-images\" test_labels: \"test-labels\" } mean: 0.5 stddev: 0.25",
      spread.served ? " served: true" : "", " }\n", "optimizer { ", OptimizerText(model),
      " }\nbatch { size: 40 micro_batches: ", micro_batches,
      " shares: ", std::min(micro_batches, 8), " }\nepochs: 2\n",
      "evaluation { every_epochs: 1 }\nstrategy: ", spread.strategy, "\n", pipeline,
      "resources { workers: ", spread.workers, " servers: ", spread.servers, " }\n");
}

class StrategiesTest : public ::testing::TestWithParam<std::tuple<Model, int>> {
 protected:
  void SetUp() override {
    data_ = FreshFolder("data");
    // Ragged last batches: 100 = 2 x 40 + 20, fewer samples than the most micro-batches.
    WriteTestData(data_, 100, 50);
    WriteFile(absl::StrCat(data_, "/text-a.txt"), Text(1, 700));
    WriteFile(absl::StrCat(data_, "/text-b.txt"), Text(2, 501));
    WriteFile(absl::StrCat(data_, "/test.txt"), Text(3, 301));
  }

  static std::string Text(uint32_t seed, size_t bytes) {
    std::string text;
    while (text.size() < bytes) {
      seed = seed * 1664525 + 1013904223;
      absl::StrAppend(&text, "word", seed >> 28, seed % 3 == 0 ? ".\n" : " ");
    }
    text.resize(bytes);
    return text;
  }

  // Runs the job and returns the bytes of its weights.
  std::string Weights(const Spread& spread) {
    const auto [model, micro_batches] = GetParam();
    return WeightsOf(JobText(model, micro_batches, spread), spread);
  }

  std::string WeightsOf(const std::string& job, const Spread& spread) {
    const std::string folder = FreshFolder(spread.Label());
    const std::string file = absl::StrCat(folder, "/job.textproto");
    WriteFile(file, job);
    const Finished run =
        RunCommand({ClientBinary(), "run", file, absl::StrCat("--threads=", spread.threads),
                    absl::StrCat("--data_root=", data_), absl::StrCat("--out=", folder, "/out")},
                   absl::Seconds(120));
    EXPECT_EQ(run.exit_code, 0) << spread.Label() << "\n" << run.output;
    EXPECT_THAT(run.output, HasSubstr("SUCCEEDED steps=6")) << spread.Label();
    const auto weights = ReadFile(absl::StrCat(folder, "/out/model.safetensors"));
    EXPECT_TRUE(weights.ok()) << weights.status();
    const auto metrics = ReadFile(absl::StrCat(folder, "/out/metrics.jsonl"));
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    return weights.ok() ? *weights : "";
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
