// Daemons that are stopped in order: their jobs go on elsewhere with the step where they stood. No
// step is computed twice, and the result has the usual bytes.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
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

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(120);
// Far below the default of --drain_timeout.
constexpr absl::Duration kDrainDeadline = absl::Seconds(30);
constexpr int kStepsPerEpoch = 32;

class DrainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = FreshFolder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    WriteTestData(folder_, 2000, 100);
    MakeCluster("2s");
  }
  void MakeCluster(const std::string& lease) {
    cluster_ = std::make_unique<Cluster>(Cluster::Options{folder_, folder_, lease});
  }
  std::string StateDir() const { return absl::StrCat("--state_dir=", folder_, "/state"); }

  std::string Job(const std::string& name, const std::string& more = "", int servers = 1) const {
    TestJob job;
    job.name = name;
    job.hidden = 512;
    job.epochs = epochs_;
    job.workers = 2;
    job.servers = servers;
    job.optimizer = "learning_rate: 0.003 adamw {}";
    job.more = more;
    return JobText(job);
  }

  static int Number(const nlohmann::json& of, const std::string& field) {
    return of.contains(field) ? std::stoi(of[field].get<std::string>()) : 0;
  }
  // Trains, and has done some steps since it was here last; what it looks like then.
  nlohmann::json AwaitProgress(const std::string& job) {
    const absl::Time until = absl::Now() + kDeadline;
    while (absl::Now() < until) {
      nlohmann::json described = cluster_->Describe(job);
      const int steps =
          described.contains("progress") ? Number(described["progress"], "steps_done") : 0;
      if (described["state"] == "RUNNING" && steps >= seen_steps_ + 20) {
        seen_steps_ = steps;
        return described;
      }
      absl::SleepFor(absl::Milliseconds(20));
    }
    ADD_FAILURE() << "no progress: " << cluster_->Describe(job);
    return {};
  }

  // SIGTERM, and a worker or server that ends in order.
  void Drain(const std::string& name) {
    const absl::Time begin = absl::Now();
    EXPECT_THAT(cluster_->Stop(name, kDrainDeadline), AnyOf(0, 128 + SIGTERM));
    std::cerr << name << " drained in " << absl::Now() - begin << "\n";
  }

  // The whole life of the job, in which every step came once.
  std::string ExpectEveryStepOnce(const std::string& job) {
    const Finished watched = cluster_->Client({"watch", job, "--output=json"}, kDeadline);
    EXPECT_EQ(watched.exit_code, 0) << watched.output.substr(0, 10000);
    int next = 0;
    int evaluations = 0;
    for (size_t at = 0; at < watched.output.size();) {
      const size_t end = std::min(watched.output.find('\n', at), watched.output.size());
      const auto event = nlohmann::json::parse(watched.output.substr(at, end - at), nullptr, false);
      at = end + 1;
      if (!event.is_object()) continue;
      if (event.contains("evaluation")) {
        EXPECT_EQ(Number(event["evaluation"], "step"), kStepsPerEpoch * ++evaluations);
      }
      if (event.contains("step")) {
        EXPECT_EQ(Number(event["step"], "step"), next++);
      }
    }
    EXPECT_EQ(next, kStepsPerEpoch * epochs_);
    EXPECT_EQ(evaluations, epochs_);
    return watched.output;
  }

  void ExpectTheUsualBits(const std::string& job, const std::string& more = "", int servers = 1) {
    cluster_->Submit(Job("usual", more, servers));
    const Finished usual = cluster_->Client({"wait", "usual"}, kDeadline);
    EXPECT_EQ(usual.exit_code, 0) << usual.output;
    EXPECT_TRUE(Weights(job) == Weights("usual")) << "other weights";
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

  int epochs_ = 20;
  int seen_steps_ = 0;
  std::string folder_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(DrainTest, TheThirdWorkerTakesThePlaceOfOneThatIsStopped) {
  // Without a folder for state, and of a job that asks for no checkpoints.
  cluster_->StartCoordinator("all");
  for (const char* name : {"w1", "w2", "w3"}) cluster_->StartWorker(name);
  cluster_->Submit(Job("job"));
  const std::string worker = AwaitProgress("job")["worker"][0].get<std::string>();
  Drain(worker);
  const std::string events = ExpectEveryStepOnce("job");
  EXPECT_THAT(events, HasSubstr(absl::StrCat("worker ", worker, " drains; stopped before step ")));
  EXPECT_EQ(cluster_->Describe("job")["generation"], "2");
  ExpectTheUsualBits("job");
}

TEST_F(DrainTest, AStageOfAPipelineGoesToAnotherWorker) {
  cluster_->StartCoordinator("all", {StateDir()});
  for (const char* name : {"w1", "w2", "w3"}) cluster_->StartWorker(name);
  const std::string pipeline = "strategy: MODEL_PARALLEL";
  cluster_->Submit(Job("job", pipeline));
  const std::string worker = AwaitProgress("job")["worker"][1].get<std::string>();
  Drain(worker);
  EXPECT_THAT(ExpectEveryStepOnce("job"),
              HasSubstr(absl::StrCat("worker ", worker, " drains; stopped before step ")));
  ExpectTheUsualBits("job", pipeline);
  // It has not asked for the checkpoint, which is gone with it.
  const Finished listed = cluster_->Client({"checkpoint", "list"}, kDeadline);
  EXPECT_EQ(listed.exit_code, 0);
  EXPECT_THAT(listed.output, ::testing::Not(HasSubstr("job"))) << listed.output;
}

TEST_F(DrainTest, ThePagesOfAServerGoToTheOthers) {
  cluster_->StartCoordinator("coordinator", {StateDir()});
  for (const char* name : {"s1", "s2", "s3"}) cluster_->StartServer(name);
  for (const char* name : {"w1", "w2"}) cluster_->StartWorker(name);
  const std::string checkpoints = "checkpoint { every_steps: 100 }";
  cluster_->Submit(Job("job", checkpoints, 2));
  const std::string server = AwaitProgress("job")["server"][0].get<std::string>();
  Drain(server);
  EXPECT_THAT(ExpectEveryStepOnce("job"),
              HasSubstr(absl::StrCat("server ", server, " drains; stopped before step ")));
  ExpectTheUsualBits("job", checkpoints, 2);
}

TEST_F(DrainTest, AllAreStartedAgainOneAfterTheOtherDuringOneJob) {
  epochs_ = 60;
  cluster_->StartCoordinator("coordinator", {StateDir()});
  for (const char* name : {"s1", "s2"}) cluster_->StartServer(name);
  for (const char* name : {"w1", "w2", "w3"}) cluster_->StartWorker(name);
  cluster_->Submit(Job("job"));
  for (const char* name : {"w1", "w2", "w3"}) {
    AwaitProgress("job");
    Drain(name);
    cluster_->StartWorker(name);
  }
  for (const char* name : {"s1", "s2"}) {
    AwaitProgress("job");
    Drain(name);
    cluster_->StartServer(name);
  }
  AwaitProgress("job");
  cluster_->RestartCoordinator(absl::ZeroDuration(), SIGTERM);
  ExpectEveryStepOnce("job");
  ExpectTheUsualBits("job");
}

TEST_F(DrainTest, ACoordinatorThatAlsoHoldsPagesGoesOnWhereItStopped) {
  cluster_->StartCoordinator("all", {StateDir()});
  for (const char* name : {"w1", "w2"}) cluster_->StartWorker(name);
  cluster_->Submit(Job("job"));
  AwaitProgress("job");
  cluster_->RestartCoordinator(absl::ZeroDuration(), SIGTERM);
  EXPECT_THAT(ExpectEveryStepOnce("job"), HasSubstr("server coordinator drains; stopped"));
  ExpectTheUsualBits("job");
}

TEST_F(DrainTest, AUserTakesAWorkerOutOfUse) {
  cluster_->StartCoordinator("all");
  for (const char* name : {"w1", "w2", "w3"}) cluster_->StartWorker(name);
  cluster_->Submit(Job("job"));
  const std::string worker = AwaitProgress("job")["worker"][0].get<std::string>();
  const Finished drained = cluster_->Client({"cluster", "drain", worker}, kDeadline);
  EXPECT_EQ(drained.exit_code, 0) << drained.output;
  ExpectEveryStepOnce("job");
  EXPECT_EQ(cluster_->Describe("job")["generation"], "2");
  EXPECT_THAT(cluster_->Client({"cluster"}, kDeadline).output, HasSubstr("DRAINING"));
  EXPECT_TRUE(cluster_->daemon(worker).Running());
}

TEST_F(DrainTest, WhatCannotFinishEndsAtItsDeadline) {
  MakeCluster("30s");
  cluster_->StartCoordinator("all");
  for (const char* name : {"w1", "w2"}) cluster_->StartWorker(name, {"--drain_timeout=2s"});
  cluster_->Submit(Job("job"));
  AwaitProgress("job");
  cluster_->daemon("w2").Signal(SIGSTOP);
  const absl::Time begin = absl::Now();
  Drain("w1");
  const absl::Duration took = absl::Now() - begin;
  EXPECT_GE(took, absl::Seconds(2));
  EXPECT_LT(took, absl::Seconds(10));
  const auto left = cluster_->AwaitDescription("job", "worker w1 left: SIGTERM", kDeadline);
  EXPECT_TRUE(left.ok()) << left.status();
  cluster_->daemon("w2").Signal(SIGCONT);
}

TEST_F(DrainTest, AServerThatLeavesWithPagesSaysWhatIsLost) {
  MakeCluster("30s");
  cluster_->StartCoordinator("coordinator", {StateDir()});
  cluster_->StartServer("s1", {"--drain_timeout=2s"});
  for (const char* name : {"w1", "w2"}) cluster_->StartWorker(name);
  cluster_->Submit(Job("job"));
  AwaitProgress("job");
  // The step at which the job would stop never comes.
  cluster_->daemon("w2").Signal(SIGSTOP);
  Drain("s1");
  const auto log = ReadFile(absl::StrCat(folder_, "/s1.log"));
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_THAT(*log, HasSubstr("leaves with pages that nobody has written down"));
  EXPECT_THAT(*log, HasSubstr("job=1 generation=1 pages="));
  const auto left = cluster_->AwaitDescription("job", "there is no checkpoint", kDeadline);
  EXPECT_TRUE(left.ok()) << left.status();
  cluster_->daemon("w2").Signal(SIGCONT);
}

TEST_F(DrainTest, WhoHasNothingToDoLeavesAtOnce) {
  cluster_->StartCoordinator("coordinator");
  cluster_->StartServer("s1");
  for (const char* name : {"w1", "w2"}) cluster_->StartWorker(name);
  const absl::Time begin = absl::Now();
  for (const char* name : {"w1", "s1"}) Drain(name);
  // Nor does one wait whose coordinator has gone.
  Drain("coordinator");
  Drain("w2");
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

}  // namespace
}  // namespace sangam::testing
