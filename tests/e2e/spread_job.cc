#include "tests/e2e/spread_job.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

// Segments of several pages each.
std::string WideModel() {
  return "  input_shape: [28, 28]\n"
         "  block { name: \"b0\" layer { flatten {} } layer { linear { out_features: 700 } } "
         "layer { relu {} } layer { dropout { rate: 0.2 } } }\n"
         "  block { name: \"b1\" layer { layer_norm {} } layer { linear { out_features: 400 } } "
         "layer { gelu {} } layer { linear { out_features: 300 no_bias: true } } recompute: true "
         "}\n"
         "  block { name: \"b2\" layer { linear { out_features: 600 } } layer { relu {} } }\n"
         "  block { name: \"b3\" layer { linear { out_features: 10 } } }\n";
}

std::string ModelText(Model model) {
  switch (model) {
    case Model::kMlp:
      return MlpModel();
    case Model::kGpt:
      return GptModel();
    case Model::kCnn:
      return CnnModel();
    case Model::kWide:
      return WideModel();
  }
  return "";
}

// The CNN's has decisions about the whole step, and a rate of its own for each step.
std::string OptimizerText(Model model) {
  const std::string adamw = "learning_rate: 0.003 adamw {}";
  if (model != Model::kCnn) return adamw;
  return absl::StrCat(adamw, " ", kClipping, " ", kSchedule);
}

std::string Text(uint32_t seed, size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    seed = seed * 1664525 + 1013904223;
    absl::StrAppend(&text, "word", seed >> 28, seed % 3 == 0 ? ".\n" : " ");
  }
  text.resize(bytes);
  return text;
}

}  // namespace

std::string Spread::Label() const {
  return absl::StrCat(strategy, "-", schedule, "-", workers, served ? "-served" : "", "-t", threads,
                      "-s", servers);
}

std::string Name(Model model) {
  switch (model) {
    case Model::kMlp:
      return "Mlp";
    case Model::kGpt:
      return "Gpt";
    case Model::kCnn:
      return "Cnn";
    case Model::kWide:
      return "Wide";
  }
  return "";
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

void WriteSpreadData(const std::string& folder) {
  WriteTestData(folder, 100, 50);
  WriteFile(absl::StrCat(folder, "/text-a.txt"), Text(1, 700));
  WriteFile(absl::StrCat(folder, "/text-b.txt"), Text(2, 501));
  WriteFile(absl::StrCat(folder, "/test.txt"), Text(3, 301));
}

std::string WeightsOf(const std::string& job, const std::string& data, const Spread& spread) {
  const std::string folder = FreshFolder(spread.Label());
  const std::string file = absl::StrCat(folder, "/job.textproto");
  WriteFile(file, job);
  std::vector<std::string> command = {ClientBinary(),
                                      "run",
                                      file,
                                      absl::StrCat("--threads=", spread.threads),
                                      absl::StrCat("--data_root=", data),
                                      absl::StrCat("--out=", folder, "/out")};
  command.insert(command.end(), spread.flags.begin(), spread.flags.end());
  const Finished run = RunCommand(command, absl::Seconds(120));
  EXPECT_EQ(run.exit_code, 0) << spread.Label() << "\n" << run.output;
  EXPECT_THAT(run.output, HasSubstr("SUCCEEDED steps=6")) << spread.Label();
  const auto weights = ReadFile(absl::StrCat(folder, "/out/model.safetensors"));
  EXPECT_TRUE(weights.ok()) << weights.status();
  const auto metrics = ReadFile(absl::StrCat(folder, "/out/metrics.jsonl"));
  EXPECT_TRUE(metrics.ok()) << metrics.status();
  return weights.ok() ? *weights : "";
}

}  // namespace sangam::testing
