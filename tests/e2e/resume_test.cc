// Stop and resume: a job that is cancelled, or whose worker is killed, goes on from its checkpoint
// on another number of workers and servers and with another strategy, and ends with the bytes of
// model.safetensors that it has when nothing ever stopped it.
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
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
  Resume("pipeline", "hybrid",
         {"resources.workers=4", "resources.servers=1", "strategy=HYBRID", "pipeline.workers=2"});
  Await("hybrid", "SUCCEEDED");
  EXPECT_TRUE(Weights("hybrid") == whole);
  Resume("first/25", "three", {"epochs=10", "resources.workers=3", "resources.servers=3"});
  Await("three", "SUCCEEDED");
  EXPECT_TRUE(Weights("three") == whole);
}

TEST_F(ResumeTest, GoesOnAfterAKilledWorker) {
  cluster_->Submit(Job("whole", 10));
  Await("whole", "SUCCEEDED");
  cluster_->Submit(Job("first", 1000));
  Await("first", "\"checkpoint\": [\n  {");
  for (const char* name : {"w0", "w1", "w2", "w3"}) cluster_->daemon(name).Signal(SIGKILL);
  Await("first", "FAILED");
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
