// GPU workers without a GPU: real daemons whose workers compute with the CUDA backend on the
// stand-in for CUDA. One job, one result, on this backend too; and close to the CPU's.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/spread_job.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/weight_file.h"

namespace sangam::testing {
namespace {

using ::testing::HasSubstr;

// The worker that has the backend.
Spread OnCuda(Spread spread) {
  spread.flags = {"--backend=cuda", "--worker_binary=tests/cuda_on_cpu/sangam-worker"};
  return spread;
}

// One that gives its device one operation after another.
Spread WithoutGraphs(Spread spread) {
  const std::string script = absl::StrCat(FreshFolder("plain_worker"), "/sangam-worker");
  WriteFile(script, "#!/bin/bash\nexec tests/cuda_on_cpu/sangam-worker --cuda_graphs=off \"$@\"\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  spread.flags = {"--backend=cuda", absl::StrCat("--worker_binary=", script)};
  return spread;
}

class CudaTest : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    data_ = FreshFolder("data");
    WriteSpreadData(data_);
  }

  std::string Weights(const Spread& spread, const std::string& more = "") {
    return WeightsOf(absl::StrCat(JobText(GetParam(), 4, spread), more), data_, spread);
  }

  std::string data_;
};

TEST_P(CudaTest, OneResult) {
  const std::string alone = Weights(OnCuda({}));
  ASSERT_FALSE(alone.empty());
  const std::vector<Spread> spreads = {
      {1, "DATA_PARALLEL", "", 0, false, /*threads=*/2},
      {2, "DATA_PARALLEL", ""},
      {2, "MODEL_PARALLEL", "ONE_F_ONE_B"},
      {2, "MODEL_PARALLEL", "ZERO_BUBBLE", 0, /*served=*/true},
  };
  for (const Spread& spread : spreads) {
    EXPECT_TRUE(Weights(OnCuda(spread)) == alone) << "other weights: " << spread.Label();
  }
  for (const Spread& spread : {Spread{}, spreads[2]}) {
    EXPECT_TRUE(Weights(WithoutGraphs(spread)) == alone) << "other weights without graphs";
  }
}

// With plain steps: AdamW moves a weight by the sign of its gradient where that is all rounding
// error.
TEST_P(CudaTest, CloseToTheCpu) {
  const auto weights = [&](const Spread& spread) {
    const std::string job =
        absl::StrReplaceAll(JobText(GetParam(), 4, spread),
                            {{"learning_rate: 0.003 adamw {}", "learning_rate: 0.05 sgd {}"}});
    return ParseSafetensors(WeightsOf(job, data_, spread));
  };
  const auto on_cuda = weights(OnCuda({}));
  const auto on_cpu = weights({});
  ASSERT_EQ(on_cuda.size(), on_cpu.size());
  ASSERT_FALSE(on_cuda.empty());
  double worst = 0;
  for (const auto& [name, a] : on_cuda) {
    ASSERT_EQ(on_cpu.count(name), 1u) << name;
    const std::vector<float>& b = on_cpu.at(name);
    ASSERT_EQ(a.size(), b.size()) << name;
    for (size_t i = 0; i < a.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
    }
  }
  // A few roundings of weights below 2; their gradients' are far smaller.
  EXPECT_LT(worst, 1e-6);
  EXPECT_GT(worst, 0) << "the CUDA backend computes nothing of its own";
  RecordProperty("worst", absl::StrCat(worst));
}

TEST_P(CudaTest, Bf16AndTf32GiveResultsOfTheirOwn) {
  const std::string fp32 = Weights(OnCuda({}));
  for (const char* precision : {"precision: BF16\n", "precision: TF32\n"}) {
    const std::string alone = Weights(OnCuda({}), precision);
    EXPECT_FALSE(alone == fp32) << precision << " changes nothing";
    EXPECT_TRUE(Weights(OnCuda({2, "DATA_PARALLEL", ""}), precision) == alone) << precision;
    EXPECT_TRUE(Weights(OnCuda({2, "MODEL_PARALLEL", "ONE_F_ONE_B"}), precision) == alone)
        << precision;
  }
}

// A device that fails in the middle of a job: its worker says so, stays and gets no more jobs;
// another one takes over.
TEST(CudaDeviceTest, AnotherWorkerTakesOverFromAFailedDevice) {
  constexpr char kWorker[] = "tests/cuda_on_cpu/sangam-worker";
  constexpr absl::Duration kDeadline = absl::Seconds(120);
  const std::string folder = FreshFolder("device");
  WriteTestData(folder, 500, 50);
  Cluster cluster({folder, folder, "2s"});
  cluster.StartCoordinator("all", {absl::StrCat("--state_dir=", folder, "/state")});
  // One launch for each of the 8 micro-batches of a step and for each chunk of an evaluation: in
  // step 10 or so of 16.
  cluster.StartWorker("breaks", {"--backend=cuda"},
                      {"/usr/bin/env", "CUDA_ON_CPU_FAIL=Softmax:90", kWorker});
  TestJob job;
  job.name = "job";
  job.more = "checkpoint { every_steps: 3 }";
  cluster.Submit(JobText(job));
  cluster.StartWorker("works", {"--backend=cuda"}, {kWorker});
  const Finished watched = cluster.Client({"watch", "job"}, kDeadline);
  EXPECT_EQ(watched.exit_code, 0) << watched.output;
  EXPECT_THAT(watched.output, HasSubstr("PREEMPTED: worker breaks has lost its device: "));
  EXPECT_THAT(watched.output, HasSubstr("softmax cross-entropy"));
  EXPECT_THAT(watched.output, HasSubstr("on workers works"));
  const Finished table = cluster.Client({"cluster"}, kDeadline);
  EXPECT_THAT(table.output, HasSubstr("broken"));
  EXPECT_THAT(table.output, HasSubstr("worker breaks gets no jobs until it is started again"));

  job.name = "usual";
  job.more = "";
  cluster.Submit(JobText(job));
  const auto weights = [&](const std::string& name) {
    const std::string path = absl::StrCat(folder, "/", name, ".safetensors");
    EXPECT_EQ(cluster.Client({"wait", name}, kDeadline).exit_code, 0);
    EXPECT_EQ(cluster.Client({"export", name, absl::StrCat("--out=", path)}, kDeadline).exit_code,
              0);
    const auto bytes = ReadFile(path);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? *bytes : "";
  };
  EXPECT_TRUE(weights("job") == weights("usual")) << "other weights";
}

INSTANTIATE_TEST_SUITE_P(All, CudaTest, ::testing::Values(Model::kMlp, Model::kGpt, Model::kCnn),
                         [](const auto& info) { return Name(info.param); });

}  // namespace
}  // namespace sangam::testing
