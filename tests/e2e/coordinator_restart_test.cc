// The coordinator is killed and started again in the middle of a job: the job goes on, and ends
// with the same bits and the same history as if nothing had happened.
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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

class CoordinatorRestartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = FreshFolder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    data_ = FreshFolder("restart-data");
    WriteTestData(data_, 200, 70);
    cluster_ = std::make_unique<Cluster>(Cluster::Options{folder_, data_, "2s"});
  }

  void StartCluster(const std::string& role, int servers, int workers) {
    cluster_->StartCoordinator(role, {absl::StrCat("--state_dir=", folder_, "/state"),
                                      absl::StrCat("--data_root=", data_)});
    for (int s = 1; s <= servers; ++s) cluster_->StartServer(absl::StrCat("s", s));
    for (int w = 1; w <= workers; ++w) cluster_->StartWorker(absl::StrCat("w", w));
  }

  static uint64_t StepsDone(const nlohmann::json& job) {
    if (!job.contains("progress") || !job["progress"].contains("steps_done")) return 0;
    const nlohmann::json& steps = job["progress"]["steps_done"];
    return steps.is_string() ? std::stoull(steps.get<std::string>()) : steps.get<uint64_t>();
  }

  // Waits until so many steps are done.
  void AwaitSteps(const std::string& name, uint64_t steps) {
    const absl::Time until = absl::Now() + kDeadline;
    for (nlohmann::json job = cluster_->Describe(name); StepsDone(job) < steps;
         job = cluster_->Describe(name)) {
      ASSERT_NE(job["state"], "FAILED") << job["reason"];
      ASSERT_LT(absl::Now(), until) << job;
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

  void ExpectSucceeds(const std::string& name) {
    const Finished watched = cluster_->Client({"watch", name}, kDeadline);
    EXPECT_EQ(watched.exit_code, 0) << watched.output;
    EXPECT_THAT(watched.output, HasSubstr("SUCCEEDED"));
  }

  // Every step and every change of state is in the history, once and in order.
  void ExpectWholeHistory(const std::string& name, uint64_t steps) {
    const Finished watched = cluster_->Client({"watch", name, "--output=json"}, kDeadline);
    uint64_t next = 0;
    uint64_t revision = 0;
    std::vector<std::string> states;
    for (const auto line : absl::StrSplit(watched.output, '\n')) {
      const nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
      if (!event.is_object() || !event.contains("revision")) continue;
      EXPECT_EQ(Number(event["revision"]), ++revision) << line;
      if (event.contains("state")) states.push_back(event["state"]["state"].get<std::string>());
      if (!event.contains("step")) continue;
      const nlohmann::json& step = event["step"];
      EXPECT_EQ(step.contains("step") ? Number(step["step"]) : 0, next) << line;
      ++next;
    }
    EXPECT_EQ(next, steps);
    EXPECT_EQ(states, (std::vector<std::string>{"QUEUED", "STARTING", "RUNNING", "SUCCEEDED"}));
  }
  static uint64_t Number(const nlohmann::json& value) {
    return value.is_string() ? std::stoull(value.get<std::string>()) : value.get<uint64_t>();
  }

  std::string Exported(const std::string& name) {
    const std::string path = absl::StrCat(folder_, "/", name, ".safetensors");
    const Finished exported =
        cluster_->Client({"export", name, absl::StrCat("--out=", path)}, kDeadline);
    EXPECT_EQ(exported.exit_code, 0) << exported.output;
    const auto weights = ReadFile(path);
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.ok() ? *weights : "";
  }

  // The weights of the job when nothing disturbs it.
  std::string Undisturbed(const std::string& text) {
    const std::string file = absl::StrCat(folder_, "/undisturbed.textproto");
    WriteFile(file, text);
    const Finished run =
        RunCommand({ClientBinary(), "run", file, "--workers=1", "--servers=1", "--threads=1",
                    absl::StrCat("--data_root=", data_), absl::StrCat("--out=", folder_, "/out")},
                   kDeadline);
    EXPECT_EQ(run.exit_code, 0) << run.output;
    const auto weights = ReadFile(absl::StrCat(folder_, "/out/model.safetensors"));
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.ok() ? *weights : "";
  }

  // 4 steps an epoch.
  static TestJob LongJob(const std::string& name, int workers, int servers) {
    TestJob job;
    job.name = name;
    job.hidden = 256;
    job.epochs = 200;
    job.workers = workers;
    job.servers = servers;
    return job;
  }

  std::string folder_;
  std::string data_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(CoordinatorRestartTest, ADataParallelJobGoesOnAndEndsWithTheUsualBits) {
  StartCluster("coordinator", 2, 2);
  const TestJob job = LongJob("parallel", 2, 2);
  cluster_->Submit(JobText(job));
  AwaitSteps(job.name, 100);
  cluster_->RestartCoordinator(absl::ZeroDuration());
  AwaitSteps(job.name, 300);
  // Longer than a lease.
  cluster_->RestartCoordinator(absl::Seconds(3));
  AwaitSteps(job.name, 500);
  cluster_->RestartCoordinator(absl::Milliseconds(500));
  ExpectSucceeds(job.name);
  ExpectWholeHistory(job.name, 800);
  const std::string weights = Exported(job.name);
  EXPECT_TRUE(weights == Undisturbed(JobText(job))) << "other weights";
  // The weights are kept over another restart, and the history.
  cluster_->RestartCoordinator(absl::ZeroDuration());
  EXPECT_TRUE(Exported(job.name) == weights);
  ExpectWholeHistory(job.name, 800);
  // And the cluster trains.
  TestJob after;
  after.name = "after";
  after.workers = 2;
  cluster_->Submit(JobText(after));
  ExpectSucceeds("after");
  EXPECT_EQ(Number(cluster_->Describe("after")["id"]), 2u);
}

TEST_F(CoordinatorRestartTest, CheckpointsOfAClippedJobAreMadeBeforeAndAfterwards) {
  StartCluster("coordinator", 2, 2);
  TestJob job = LongJob("clipped", 2, 2);
  job.epochs = 300;
  job.evaluation = "off: true";
  job.optimizer =
      "learning_rate: 0.002 adamw {} clipping { max_norm: 0.05 } schedule { cosine {} "
      "warmup_steps: 100 }";
  const std::string usual = Undisturbed(JobText(job));
  job.more = "checkpoint { every_steps: 50 keep: 1000 }";
  cluster_->Submit(JobText(job));
  AwaitSteps(job.name, 120);
  cluster_->RestartCoordinator(absl::ZeroDuration());
  const uint64_t resumed_at = StepsDone(cluster_->Describe(job.name));
  AwaitSteps(job.name, 400);
  cluster_->RestartCoordinator(absl::Milliseconds(200));
  ExpectSucceeds(job.name);
  ExpectWholeHistory(job.name, 1200);
  EXPECT_TRUE(Exported(job.name) == usual) << "other weights";

  const Finished verified = cluster_->Client({"checkpoint", "verify", job.name}, kDeadline);
  EXPECT_EQ(verified.exit_code, 0) << verified.output;
  const nlohmann::json described = cluster_->Describe(job.name);
  std::vector<uint64_t> steps;
  for (const nlohmann::json& checkpoint : described["checkpoint"]) {
    steps.push_back(Number(checkpoint["step"]));
  }
  std::sort(steps.begin(), steps.end());
  ASSERT_GE(steps.size(), 3u) << described["checkpoint"];
  EXPECT_LE(steps.front(), 100u);
  EXPECT_EQ(steps.back(), 1200u);
  steps.pop_back();
  EXPECT_GT(steps.back(), 400u);
  EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [resumed_at](uint64_t step) {
    return step > resumed_at && step <= 400;
  })) << described["checkpoint"];
  // One that was made after both restarts.
  const Finished resumed = cluster_->Client(
      {"resume", absl::StrCat(job.name, "/", steps.back()), "--name=again"}, kDeadline);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  ExpectSucceeds("again");
  EXPECT_TRUE(Exported("again") == usual) << "other weights from step " << steps.back();
}

TEST_F(CoordinatorRestartTest, APipelineWithServedDataGoesOnToo) {
  StartCluster("coordinator", 1, 3);
  const TestJob job = LongJob("pipeline", 3, 1);
  const std::string text = absl::StrCat(JobText(job), "strategy: MODEL_PARALLEL\n");
  std::string served = text;
  const size_t at = served.find("data { ");
  ASSERT_NE(at, std::string::npos);
  served.insert(at + 7, "served: true ");
  cluster_->Submit(served);
  AwaitSteps(job.name, 100);
  cluster_->RestartCoordinator(absl::Milliseconds(300));
  AwaitSteps(job.name, 200);
  cluster_->RestartCoordinator(absl::Seconds(1));
  ExpectSucceeds(job.name);
  ExpectWholeHistory(job.name, 800);
  EXPECT_TRUE(Exported(job.name) == Undisturbed(JobText(LongJob("pipeline", 1, 1))))
      << "other weights";
}

TEST_F(CoordinatorRestartTest, WaitingJobsStartAfterwardsAndADaemonThatDiedMeanwhileCountsAsLost) {
  StartCluster("coordinator", 1, 2);
  TestJob endless = LongJob("endless", 2, 1);
  endless.epochs = 1000000;
  cluster_->Submit(JobText(endless));
  TestJob waiting;
  waiting.name = "waiting";
  cluster_->Submit(JobText(waiting));
  AwaitSteps("endless", 10);
  cluster_->daemon("coordinator").Signal(SIGSTOP);
  cluster_->daemon("w2").Signal(SIGKILL);
  cluster_->RestartCoordinator(absl::ZeroDuration());
  ExpectSucceeds("waiting");
  const nlohmann::json queued = cluster_->Describe("endless");
  EXPECT_EQ(queued["state"], "QUEUED");
  EXPECT_THAT(queued.dump(), HasSubstr("worker w2 lost"));
}

TEST_F(CoordinatorRestartTest, ACoordinatorThatAlsoHeldPagesFailsTheJobAndSaysWhy) {
  StartCluster("all", 0, 1);
  TestJob done;
  done.name = "done";
  cluster_->Submit(JobText(done));
  ExpectSucceeds("done");
  TestJob endless = LongJob("endless", 1, 1);
  endless.epochs = 1000000;
  cluster_->Submit(JobText(endless));
  AwaitSteps("endless", 10);
  cluster_->RestartCoordinator(absl::ZeroDuration());
  const nlohmann::json failed = cluster_->Describe("endless");
  EXPECT_EQ(failed["state"], "FAILED");
  EXPECT_THAT(failed["reason"].get<std::string>(),
              HasSubstr("the coordinator, which also held pages, was started again"));
  const nlohmann::json kept = cluster_->Describe("done");
  EXPECT_EQ(kept["state"], "SUCCEEDED");
  EXPECT_FALSE(kept.value("weights_available", false));
  TestJob after;
  after.name = "after";
  cluster_->Submit(JobText(after));
  ExpectSucceeds("after");
}

TEST_F(CoordinatorRestartTest, ASecondCoordinatorIsRefusedAndToldWhoHasTheFolder) {
  StartCluster("coordinator", 0, 0);
  const Finished second = RunCommand({ServerBinary(), "--listen=127.0.0.1:0", "--role=coordinator",
                                      absl::StrCat("--state_dir=", folder_, "/state")},
                                     kDeadline);
  EXPECT_EQ(second.exit_code, 78);
  EXPECT_THAT(second.output, HasSubstr("--state_dir"));
  EXPECT_THAT(second.output,
              HasSubstr(absl::StrCat("locked by pid ", cluster_->daemon("coordinator").pid())));
}

}  // namespace
}  // namespace sangam::testing
