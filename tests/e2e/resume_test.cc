// Stop and resume: a job that is cancelled, or whose worker is killed, goes on from its checkpoint
// on another number of workers and servers and with another strategy, and ends with the bytes of
// model.safetensors that it has when nothing ever stopped it.
#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/cluster.h"
#include "tests/e2e/cnn_job.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

using ::testing::HasSubstr;

class ResumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = FreshFolder("resume");
    WriteTestData(folder_, 2000, 100);
    cluster_ = std::make_unique<Cluster>(Cluster::Options{folder_, folder_, "2s"});
    cluster_->StartCoordinator("all", {absl::StrCat("--state_dir=", folder_, "/state")});
    cluster_->StartServer("s1");
    cluster_->StartServer("s2");
    for (const char* name : {"w0", "w1", "w2", "w3"}) cluster_->StartWorker(name);
  }

  static std::string Job(const std::string& name, int epochs) {
    TestJob job;
    job.name = name;
    job.epochs = epochs;
    job.optimizer = "learning_rate: 0.003 adamw {}";
    return absl::StrCat(JobText(job), "checkpoint { every_steps: 25 keep: 100 }\n");
  }

  void Await(const std::string& job, const std::string& text) {
    const auto described = cluster_->AwaitDescription(job, text, absl::Seconds(100));
    ASSERT_TRUE(described.ok()) << described.status();
  }

  void Resume(const std::string& from, const std::string& name,
              const std::vector<std::string>& set) {
    std::vector<std::string> arguments = {"resume", from, absl::StrCat("--name=", name)};
    for (const std::string& field : set) arguments.push_back(absl::StrCat("--set=", field));
    const Finished resumed = cluster_->Client(arguments, absl::Seconds(30));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  }

  std::string Weights(const std::string& job) {
    const std::string path = absl::StrCat(folder_, "/", job, ".safetensors");
    const Finished exported =
        cluster_->Client({"export", job, absl::StrCat("--out=", path)}, absl::Seconds(30));
    EXPECT_EQ(exported.exit_code, 0) << exported.output;
    const auto bytes = ReadFile(path);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? *bytes : "";
  }

  // Steps of the job's checkpoints, ascending.
  std::vector<int> Steps(const std::string& job) {
    const Finished listed =
        cluster_->Client({"checkpoint", "list", job, "--output=json"}, absl::Seconds(30));
    const auto checkpoints = nlohmann::json::parse(listed.output, nullptr, false);
    EXPECT_TRUE(checkpoints.contains("checkpoint")) << listed.output;
    std::vector<int> steps;
    for (const auto& checkpoint : checkpoints["checkpoint"]) {
      steps.push_back(std::stoi(checkpoint["step"].get<std::string>()));
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  }

  std::string folder_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(ResumeTest, SameBitsOnOtherClustersAndStrategies) {
  // Never stopped: 10 epochs of 32 steps.
  cluster_->Submit(Job("whole", 10));
  Await("whole", "SUCCEEDED");
  const std::string whole = Weights("whole");
  // Stopped by the user, and again, and once more.
  cluster_->Submit(Job("first", 1000));
  Await("first", "\"checkpoint\": [\n  {");
  ASSERT_EQ(cluster_->Client({"cancel", "first"}, absl::Seconds(30)).exit_code, 0);
  Await("first", "CANCELLED");
  const Finished listed = cluster_->Client({"checkpoint", "list", "first"}, absl::Seconds(30));
  EXPECT_THAT(listed.output, HasSubstr("2/25"));
  Resume("first/25", "pipeline",
         {"epochs=10", "resources.workers=2", "resources.servers=3", "strategy=MODEL_PARALLEL"});
  Await("pipeline", "SUCCEEDED");
  EXPECT_TRUE(Weights("pipeline") == whole);
  const Finished verified =
      cluster_->Client({"checkpoint", "verify", "pipeline"}, absl::Seconds(30));
  EXPECT_EQ(verified.exit_code, 0) << verified.output;
  // The newest one but that of the last step.
  const std::vector<int> steps = Steps("pipeline");
  ASSERT_GE(steps.size(), 2u);
  EXPECT_EQ(steps.back(), 320);
  Resume(absl::StrCat("pipeline/", steps[steps.size() - 2]), "hybrid",
         {"resources.workers=4", "resources.servers=1", "strategy=HYBRID", "pipeline.workers=2"});
  Await("hybrid", "SUCCEEDED");
  EXPECT_TRUE(Weights("hybrid") == whole);
  Resume("first/25", "three", {"epochs=10", "resources.workers=3", "resources.servers=3"});
  Await("three", "SUCCEEDED");
  EXPECT_TRUE(Weights("three") == whole);
}

// What a checkpoint must bring back: running statistics, the optimizer's state, where the schedule
// stands.
struct Recipe {
  std::string name;
  std::string optimizer;
  std::string checkpoint;
};

class ResumeCnnTest : public ResumeTest, public ::testing::WithParamInterface<Recipe> {
 protected:
  static std::string Cnn(const std::string& name, int epochs, const std::string& spread) {
    CnnJob job;
    job.name = name;
    job.optimizer = GetParam().optimizer;
    job.epochs = epochs;
    job.more = absl::StrCat("evaluation { off: true } checkpoint { keep: 1000 ",
                            GetParam().checkpoint, " } ", spread);
    return CnnJobText(job);
  }

  // Stops the job as soon as it has a checkpoint, and returns the step of its first one.
  int StopAtCheckpoint(const std::string& job) {
    Await(job, "\"checkpoint\": [\n  {");
    EXPECT_EQ(cluster_->Client({"cancel", job}, absl::Seconds(30)).exit_code, 0);
    Await(job, "CANCELLED");
    const std::vector<int> steps = Steps(job);
    EXPECT_FALSE(steps.empty());
    return steps.empty() ? 0 : steps.front();
  }
};

TEST_P(ResumeCnnTest, StoppedTwiceOnThreeClusters) {
  WriteTestData(folder_, 200, 10);  // 5 steps an epoch
  constexpr int kEpochs = 30;
  cluster_->Submit(Cnn("whole", kEpochs, ""));
  Await("whole", "SUCCEEDED");
  cluster_->Submit(Cnn("first", 100000, "resources { workers: 2 servers: 3 }"));
  const int first = StopAtCheckpoint("first");
  Resume(absl::StrCat("first/", first), "second",
         {"resources.workers=3", "resources.servers=1", "strategy=MODEL_PARALLEL"});
  const int second = StopAtCheckpoint("second");
  EXPECT_GT(second, first);
  ASSERT_LT(second, kEpochs * 5);
  Resume(absl::StrCat("second/", second), "third",
         {absl::StrCat("epochs=", kEpochs), "resources.workers=4", "resources.servers=2",
          "strategy=HYBRID", "pipeline.workers=2"});
  Await("third", "SUCCEEDED");
  EXPECT_TRUE(Weights("third") == Weights("whole"));
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, ResumeCnnTest,
    ::testing::Values(Recipe{"AdamwClippedBySteps",
                             "learning_rate: 0.003 adamw {} clipping { max_norm: 0.5 } schedule { "
                             "cosine { decay_steps: 110 } warmup_steps: 30 }",
                             "every_steps: 20"},
                      Recipe{"LambClippedBySeconds",
                             "learning_rate: 0.01 lamb {} clipping { max_norm: 0.5 }",
                             "every_seconds: 0.1"}),
    [](const auto& info) { return info.param.name; });

TEST_F(ResumeTest, ALongerJobHasTheBitsOfOneThatWasLongFromTheStart) {
  cluster_->Submit(Job("whole", 10));
  Await("whole", "SUCCEEDED");
  cluster_->Submit(Job("short", 4));
  Await("short", "SUCCEEDED");
  // From its newest one, which is that of its last step.
  const std::vector<int> steps = Steps("short");
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back(), 4 * 32);
  Resume("short", "longer", {"epochs=10", "resources.workers=2", "resources.servers=2"});
  Await("longer", "SUCCEEDED");
  EXPECT_TRUE(Weights("longer") == Weights("whole"));
  EXPECT_FALSE(Weights("short") == Weights("whole"));
  const Finished over =
      cluster_->Client({"resume", "longer", "--name=over", "--set=epochs=3"}, absl::Seconds(30));
  EXPECT_EQ(over.exit_code, 0) << over.output;
  Await("over", "the job has 96 steps");
}

TEST_F(ResumeTest, GoesOnAfterAKilledWorker) {
  cluster_->Submit(Job("whole", 10));
  Await("whole", "SUCCEEDED");
  cluster_->Submit(Job("first", 1000));
  Await("first", "\"checkpoint\": [\n  {");
  for (const char* name : {"w0", "w1", "w2", "w3"}) cluster_->daemon(name).Signal(SIGKILL);
  // It waits for a worker; the user would have another job instead.
  Await("first", "PREEMPTED");
  ASSERT_EQ(cluster_->Client({"cancel", "first"}, absl::Seconds(30)).exit_code, 0);
  for (const char* name : {"x0", "x1"}) cluster_->StartWorker(name);
  Resume("first/25", "again", {"epochs=10", "resources.workers=2"});
  Await("again", "SUCCEEDED");
  EXPECT_TRUE(Weights("again") == Weights("whole"));
}

TEST_F(ResumeTest, RefusesWhatWouldChangeTheResult) {
  cluster_->Submit(Job("first", 1000));
  Await("first", "\"checkpoint\": [\n  {");
  const Finished refused = cluster_->Client(
      {"resume", "first", "--set=seed=8", "--set=batch.size=32"}, absl::Seconds(30));
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.output, HasSubstr("seed: found 8, expected 7"));
  EXPECT_THAT(refused.output, HasSubstr("batch.size: found 32, expected 64"));
}

}  // namespace
}  // namespace sangam::testing
