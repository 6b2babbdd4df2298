// Weights and losses of a job against plain loops in double precision.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "tests/e2e/cluster.h"
#include "tests/testing/idx_files.h"
#include "tests/testing/reference_trainer.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/weight_file.h"

namespace sangam::testing {
namespace {

constexpr int kTrainSamples = 200;
constexpr int kTestSamples = 70;

class ReferenceTest : public ::testing::TestWithParam<TestJob> {};

TEST_P(ReferenceTest, WeightsAndLossesMatchPlainLoops) {
  const TestJob& job = GetParam();
  const std::string folder = FreshFolder(absl::StrCat("reference-", job.name));
  WriteTestData(folder, kTrainSamples, kTestSamples);
  const std::string file = absl::StrCat(folder, "/job.textproto");
  WriteFile(file, JobText(job));
  const Finished run =
      RunCommand({ClientBinary(), "run", file, "--workers=2", "--servers=1", "--threads=1",
                  absl::StrCat("--data_root=", folder), absl::StrCat("--out=", folder, "/out")},
                 absl::Seconds(120));
  ASSERT_EQ(run.exit_code, 0) << run.output;

  v1::JobSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(JobText(job), &spec));
  const ReferenceResult expected = TrainReference(spec, MakeImages(1, kTrainSamples, 28, 28, 10),
                                                  MakeImages(2, kTestSamples, 28, 28, 10));

  const auto bytes = ReadFile(absl::StrCat(folder, "/out/model.safetensors"));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto tensors = ParseSafetensors(*bytes);
  ASSERT_EQ(tensors.size(), expected.parameters.size());
  for (const auto& [name, reference] : expected.parameters) {
    const auto found = tensors.find(name);
    ASSERT_NE(found, tensors.end()) << name;
    ASSERT_EQ(found->second.size(), reference.size()) << name;
    double worst = 0;
    for (size_t i = 0; i < reference.size(); ++i) {
      worst = std::max(worst, std::fabs(static_cast<double>(found->second[i]) - reference[i]));
    }
    // Weights are below 1; some hundred roundings of 6e-8 each. AdamW divides by the root of small
    // second moments, which magnifies the gradient's rounding.
    EXPECT_LT(worst, job.name == "adamw" ? 1e-4 : 5e-6) << name;
    RecordProperty(absl::StrCat("worst_", name), absl::StrCat(worst));
  }

  const auto metrics = ReadFile(absl::StrCat(folder, "/out/metrics.jsonl"));
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  size_t steps = 0;
  for (const absl::string_view line : absl::StrSplit(*metrics, '\n', absl::SkipEmpty())) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    if (entry.contains("accuracy")) {
      if (entry["step"] != expected.step_losses.size()) continue;
      EXPECT_EQ(entry["correct"], expected.correct);
      EXPECT_NEAR(entry["loss"].get<double>(), expected.test_loss, 1e-4);
      ++steps;
    } else if (entry.contains("step") && entry.contains("loss")) {
      const uint64_t step = entry["step"];
      ASSERT_LT(step, expected.step_losses.size());
      EXPECT_NEAR(entry["loss"].get<double>(), expected.step_losses[step], 1e-4) << step;
      ++steps;
    }
  }
  // Every step's loss and the last evaluation.
  EXPECT_EQ(steps, expected.step_losses.size() + 1) << *metrics;
}

TestJob Named(const std::string& name, const std::string& optimizer) {
  TestJob job;
  job.name = name;
  job.optimizer = optimizer;
  return job;
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, ReferenceTest,
    ::testing::Values(Named("sgd", "learning_rate: 0.05 sgd {}"),
                      Named("momentum", "learning_rate: 0.02 momentum { momentum: 0.9 }"),
                      Named("adamw", "learning_rate: 0.002 adamw { weight_decay: 0.1 }")),
    [](const ::testing::TestParamInfo<TestJob>& info) { return info.param.name; });

}  // namespace
}  // namespace sangam::testing
