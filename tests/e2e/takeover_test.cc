// Another worker takes over: a job whose worker is killed goes on without anybody's help, and ends
// with the bytes that it has when nothing ever disturbed it.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/cluster.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(120);
constexpr int kSteps = 640;  // 20 epochs of 32

class TakeoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = FreshFolder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    WriteTestData(folder_, 2000, 100);
    cluster_ = std::make_unique<Cluster>(Cluster::Options{folder_, folder_, "2s"});
    cluster_->StartCoordinator("all", {absl::StrCat("--state_dir=", folder_, "/state")});
  }

  // On two workers.
  static std::string Job(const std::string& name, const std::string& more) {
    TestJob job;
    job.name = name;
    job.hidden = 512;
    job.epochs = 20;
    job.workers = 2;
    job.optimizer = "learning_rate: 0.003 adamw {}";
    job.more = more;
    return JobText(job);
  }

  static int Number(const nlohmann::json& of, const std::string& field) {
    return of.contains(field) ? std::stoi(of[field].get<std::string>()) : 0;
  }
  static int StepsDone(const nlohmann::json& job) {
    return job.contains("progress") ? Number(job["progress"], "steps_done") : 0;
  }

  void Await(const std::string& job, const std::string& text) {
    const auto described = cluster_->AwaitDescription(job, text, kDeadline);
    ASSERT_TRUE(described.ok()) << described.status();
  }
  void AwaitSteps(const std::string& job, int steps) {
    const absl::Time until = absl::Now() + kDeadline;
    while (StepsDone(cluster_->Describe(job)) < steps) {
      ASSERT_LT(absl::Now(), until);
      absl::SleepFor(absl::Milliseconds(20));
    }
  }
  // A worker of the job, in the middle of it.
  void KillWorkerOf(const std::string& job) {
    const nlohmann::json described = cluster_->Describe(job);
    ASSERT_EQ(described["state"], "RUNNING") << described;
    ASSERT_LT(StepsDone(described), kSteps);
    killed_ = described["worker"][0].get<std::string>();
    cluster_->daemon(killed_).Signal(SIGKILL);
  }

  // As if nothing had happened, but for the history.
  void ExpectEndsWithTheUsualBits(const std::string& job) {
    const Finished watched = cluster_->Client({"watch", job}, kDeadline);
    EXPECT_EQ(watched.exit_code, 0) << watched.output;
    EXPECT_THAT(watched.output, HasSubstr(absl::StrCat("PREEMPTED: worker ", killed_, " lost")));
    const nlohmann::json described = cluster_->Describe(job);
    EXPECT_EQ(StepsDone(described), kSteps);
    EXPECT_EQ(described["generation"], "2");
    ASSERT_EQ(described["evaluation"].size(), 20u) << described["evaluation"];
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(Number(described["evaluation"][i], "step"), 32 * (static_cast<int>(i) + 1));
    }
    const Finished usual = cluster_->Client({"wait", "usual"}, kDeadline);
    EXPECT_EQ(usual.exit_code, 0) << usual.output;
    EXPECT_TRUE(Weights(job) == Weights("usual")) << "other weights";
  }

  // The first step of the job's last life, from its events: every step from there on comes once.
  int LastLife(const std::string& job) {
    const Finished watched = cluster_->Client({"watch", job, "--output=json"}, kDeadline);
    int first = -1;
    int next = 0;
    for (size_t at = 0; at < watched.output.size();) {
      const size_t end = std::min(watched.output.find('\n', at), watched.output.size());
      const auto event = nlohmann::json::parse(watched.output.substr(at, end - at), nullptr, false);
      at = end + 1;
      if (!event.is_object()) continue;
      if (event.contains("state") && event["state"]["state"] == "STARTING") first = -1;
      if (!event.contains("step")) continue;
      const int step = Number(event["step"], "step");
      if (first < 0) next = first = step;
      EXPECT_EQ(step, next++);
    }
    EXPECT_EQ(next, kSteps);
    return first;
  }

  std::string Weights(const std::string& job) {
    const std::string path = absl::StrCat(folder_, "/", job, ".safetensors");
    const Finished exported =
        cluster_->Client({"export", job, absl::StrCat("--out=", path)}, kDeadline);
    EXPECT_EQ(exported.exit_code, 0) << exported.output;
    const auto bytes = ReadFile(path);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? *bytes : "";
  }

  std::string folder_;
  std::string killed_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(TakeoverTest, TheThirdWorkerGoesOnFromTheNewestCheckpoint) {
  for (const char* name : {"w1", "w2", "w3"}) cluster_->StartWorker(name);
  cluster_->Submit(Job("job", "checkpoint { every_steps: 50 }"));
  Await("job", "\"checkpoint\": [\n  {");
  KillWorkerOf("job");
  cluster_->Submit(Job("usual", ""));
  ExpectEndsWithTheUsualBits("job");
  const int first = LastLife("job");
  EXPECT_GE(first, 50);
  EXPECT_EQ(first % 50, 0);
}

TEST_F(TakeoverTest, WithoutCheckpointsItBeginsAnew) {
  for (const char* name : {"w1", "w2", "w3"}) cluster_->StartWorker(name);
  cluster_->Submit(Job("job", ""));
  AwaitSteps("job", 100);
  KillWorkerOf("job");
  cluster_->Submit(Job("usual", ""));
  ExpectEndsWithTheUsualBits("job");
  EXPECT_EQ(LastLife("job"), 0);
}

TEST_F(TakeoverTest, WithTooFewWorkersItWaitsAndSaysSoAlsoOverARestartOfTheCoordinator) {
  for (const char* name : {"w1", "w2"}) cluster_->StartWorker(name);
  cluster_->Submit(Job("job", "checkpoint { every_steps: 50 }"));
  Await("job", "\"checkpoint\": [\n  {");
  KillWorkerOf("job");
  Await("job", "\"reason\": \"waiting for 1 of 2 workers (have: w");
  EXPECT_EQ(cluster_->Describe("job")["state"], "QUEUED");
  // Which is also the server, whose pages nobody needs any more.
  cluster_->RestartCoordinator(absl::ZeroDuration());
  Await("job", "\"reason\": \"waiting for 1 of 2 workers (have: w");
  cluster_->StartWorker("w9");
  cluster_->Submit(Job("usual", ""));
  ExpectEndsWithTheUsualBits("job");
  EXPECT_GE(LastLife("job"), 50);
}

TEST_F(TakeoverTest, ACoordinatorThatAlsoHeldPagesGoesOnFromTheCheckpoint) {
  for (const char* name : {"w1", "w2"}) cluster_->StartWorker(name);
  cluster_->Submit(Job("job", "checkpoint { every_steps: 50 }"));
  Await("job", "\"checkpoint\": [\n  {");
  ASSERT_EQ(cluster_->Describe("job")["state"], "RUNNING");
  cluster_->RestartCoordinator(absl::ZeroDuration());
  const Finished watched = cluster_->Client({"watch", "job"}, kDeadline);
  EXPECT_EQ(watched.exit_code, 0) << watched.output;
  EXPECT_THAT(watched.output,
              HasSubstr("PREEMPTED: server coordinator lost: the coordinator, which "
                        "also held pages, was started again"));
  cluster_->Submit(Job("usual", ""));
  EXPECT_EQ(cluster_->Client({"wait", "usual"}, kDeadline).exit_code, 0);
  EXPECT_TRUE(Weights("job") == Weights("usual")) << "other weights";
}

}  // namespace
}  // namespace sangam::testing
