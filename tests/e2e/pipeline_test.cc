// Pipelines of real daemons: what fits where, what is refused, what a trace shows, and what becomes
// of a job whose stage dies.
#include <signal.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/cluster.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kCommandDeadline = absl::Seconds(60);
// Several times the lease of 2 s: a bound against hangs, not a measurement.
constexpr absl::Duration kFailDeadline = absl::Seconds(20);

// Eight blocks of `width`.
std::string Job(const std::string& name, int width, int epochs, const std::string& rest) {
  std::string blocks =
      absl::StrCat("block { layer { flatten {} } layer { linear { out_features: ", width,
                   " } } layer { relu {} } }\n");
  for (int b = 1; b < 7; ++b) {
    absl::StrAppend(&blocks, "block { layer { linear { out_features: ", width,
                    " } } layer { relu {} } }\n");
  }
  return absl::StrCat(
      "name: \"", name, "\" seed: 7\nmodel { input_shape: [28, 28]\n", blocks,
      "block { layer { linear { out_features: 10 } } } }\n", "loss { softmax_cross_entropy {} }\n",
      "data { idx { train_images: \"train-images\" train_labels: \"train-labels\" ",
      "test_images: \"test-images\" test_labels: \"test-labels\" } }\n",
      "optimizer { learning_rate: 0.01 sgd {} }\n",
      "batch { size: 64 micro_batches: 8 shares: 2 }\nepochs: ", epochs, "\n", rest);
}

class PipelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = FreshFolder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    const std::string data = FreshFolder("pipeline-data");
    WriteTestData(data, 200, 70);
    cluster_ = std::make_unique<Cluster>(Cluster::Options{folder_, worker_data_ ? data : "", "2s"});
    cluster_->StartCoordinator("all", {absl::StrCat("--data_root=", data)});
  }

  void StartWorkers(int count, const std::vector<std::string>& flags = {}) {
    for (int w = 1; w <= count; ++w) cluster_->StartWorker(absl::StrCat("w", w), flags);
  }

  void ExpectSucceeds(const std::string& name) {
    const Finished watched = cluster_->Client({"watch", name}, kCommandDeadline);
    EXPECT_EQ(watched.exit_code, 0) << watched.output;
    EXPECT_THAT(watched.output, HasSubstr("SUCCEEDED"));
  }

  // Hands the job in; it must be refused. What the client said.
  std::string Refused(const std::string& text) {
    const std::string path = absl::StrCat(folder_, "/refused.textproto");
    WriteFile(path, text);
    const Finished submitted = cluster_->Client({"submit", path}, kCommandDeadline);
    EXPECT_NE(submitted.exit_code, 0) << submitted.output;
    EXPECT_NE(submitted.exit_code, -1) << "crashed or hung: " << submitted.output;
    return submitted.output;
  }

  bool worker_data_ = true;
  std::string folder_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(PipelineTest, AModelTooLargeForAnyWorkerTrainsAsAPipelineAndIsRefusedAsDataParallel) {
  // Weights, gradients and activations of 7 x 512 x 512 and more parameters: above 20 MiB whole,
  // about a quarter of it in each of four stages.
  StartWorkers(4, {"--memory_limit=20971520"});
  const std::string refused =
      Refused(Job("whole", 512, 1, "strategy: DATA_PARALLEL resources { workers: 4 }"));
  EXPECT_THAT(refused, AllOf(HasSubstr("MiB"), HasSubstr("20.0 MiB"), HasSubstr("worker w1")));
  cluster_->Submit(Job("parts", 512, 1, "strategy: MODEL_PARALLEL resources { workers: 4 }"));
  ExpectSucceeds("parts");
  // The planner finds it by itself.
  cluster_->Submit(Job("auto", 512, 1, "strategy: AUTO resources { workers: 4 }"));
  ExpectSucceeds("auto");
  const Finished described = cluster_->Client({"describe", "auto"}, kCommandDeadline);
  EXPECT_THAT(described.output, HasSubstr("MODEL_PARALLEL"));
}

TEST_F(PipelineTest, CreditsBelowTheBoundAreRefusedAtSubmit) {
  StartWorkers(3);
  const std::string refused = Refused(
      Job("credits", 16, 1,
          "strategy: MODEL_PARALLEL pipeline { schedule: INTERLEAVED credits: 1 } resources { "
          "workers: 3 }"));
  EXPECT_THAT(refused,
              AllOf(HasSubstr("pipeline.credits"), HasSubstr("found 1"), HasSubstr("at least 2")));
}

TEST_F(PipelineTest, PlanShowsTheStrategiesSideBySideWithoutRunning) {
  StartWorkers(4, {"--memory_limit=20971520"});
  const std::string path = absl::StrCat(folder_, "/job.textproto");
  WriteFile(path, Job("planned", 512, 1, "strategy: AUTO resources { workers: 4 }"));
  const Finished table = cluster_->Client({"plan", path}, kCommandDeadline);
  EXPECT_EQ(table.exit_code, 0) << table.output;
  EXPECT_THAT(table.output, AllOf(HasSubstr("DATA_PARALLEL"), HasSubstr("MODEL_PARALLEL"),
                                  HasSubstr("HYBRID"), HasSubstr("w4")));
  const Finished json = cluster_->Client({"plan", path, "--output=json"}, kCommandDeadline);
  EXPECT_EQ(json.exit_code, 0) << json.output;
  const auto report = nlohmann::json::parse(json.output, nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(report.is_discarded()) << json.output;
  ASSERT_EQ(report["forecast"].size(), 3);
  EXPECT_TRUE(report["feasible"].get<bool>());
  const Finished listed = cluster_->Client({"list"}, kCommandDeadline);
  EXPECT_THAT(listed.output, ::testing::Not(HasSubstr("planned")));
}

TEST_F(PipelineTest, TraceShowsEveryWorkersActivities) {
  StartWorkers(3);
  cluster_->Submit(Job("traced", 64, 3,
                       "strategy: MODEL_PARALLEL pipeline { schedule: ZERO_BUBBLE } resources { "
                       "workers: 3 }"));
  ExpectSucceeds("traced");
  const std::string file = absl::StrCat(folder_, "/trace.json");
  const Finished traced = cluster_->Client({"trace", "traced", "-o", file}, kCommandDeadline);
  ASSERT_EQ(traced.exit_code, 0) << traced.output;
  const auto text = ReadFile(file);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto trace = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(trace.is_discarded()) << *text;
  std::map<std::string, std::set<int>> pids;  // by first word of the name
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const std::string name = event["name"];
    pids[name.substr(0, name.find(' '))].insert(event["pid"].get<int>());
  }
  for (const char* everywhere : {"forward", "backward", "receive", "send", "wait", "push"}) {
    EXPECT_EQ(pids[everywhere].size(), 3) << everywhere << "\n" << text->substr(0, 2000);
  }
  EXPECT_THAT(*text, AllOf(HasSubstr("weight"), HasSubstr("w1"), HasSubstr("w3")));
  const Finished described = cluster_->Client({"describe", "traced"}, kCommandDeadline);
  EXPECT_THAT(described.output, HasSubstr("bubble"));
}

class ServedDataTest : public PipelineTest {
 protected:
  ServedDataTest() { worker_data_ = false; }
};

TEST_F(ServedDataTest, OnlyTheCoordinatorNeedsTheDataSet) {
  StartWorkers(3);
  const std::string three = "strategy: MODEL_PARALLEL resources { workers: 3 }";
  const std::string local = Job("local", 32, 2, three);
  const std::string served =
      absl::StrReplaceAll(Job("served", 32, 2, three), {{"data { idx", "data { served: true idx"}});
  cluster_->Submit(local);
  const Finished watched = cluster_->Client({"watch", "local"}, kCommandDeadline);
  EXPECT_EQ(watched.exit_code, 3) << watched.output;
  EXPECT_THAT(watched.output, HasSubstr("without --data_root"));
  cluster_->Submit(served);
  ExpectSucceeds("served");
  // A file that is not there is the coordinator's to report.
  cluster_->Submit(absl::StrReplaceAll(
      served, {{"\"train-images\"", "\"nowhere\""}, {"\"served\"", "\"missing\""}}));
  const Finished missing = cluster_->Client({"watch", "missing"}, kCommandDeadline);
  EXPECT_EQ(missing.exit_code, 3) << missing.output;
  EXPECT_THAT(missing.output, AllOf(HasSubstr("data.idx.train_images"), HasSubstr("nowhere")));
}

// Each stage in turn, at points of time that differ from run to run.
class KilledStageTest : public PipelineTest, public ::testing::WithParamInterface<int> {};

TEST_P(KilledStageTest, AllStagesStopAndTheJobWaitsForAnotherWorker) {
  StartWorkers(3);
  const std::string victim = absl::StrCat("w", GetParam());
  cluster_->Submit(
      Job("endless", 64, 1000000, "strategy: MODEL_PARALLEL resources { workers: 3 }"));
  const auto running = cluster_->AwaitDescription("endless", "\"steps_done\"", absl::Seconds(60));
  ASSERT_TRUE(running.ok()) << running.status();
  absl::SleepFor(absl::Milliseconds(37 * GetParam()));
  cluster_->daemon(victim).Signal(SIGKILL);
  const auto waiting = cluster_->AwaitDescription(
      "endless", "\"reason\": \"waiting for 1 of 3 workers", kFailDeadline);
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  EXPECT_THAT(*waiting, HasSubstr(absl::StrCat("worker ", victim, " lost")));
  // The others let go of the job and train the next one.
  cluster_->Submit(Job("after", 16, 1, "strategy: MODEL_PARALLEL resources { workers: 2 }"));
  ExpectSucceeds("after");
}

INSTANTIATE_TEST_SUITE_P(EachStage, KilledStageTest, ::testing::Values(1, 2, 3));

TEST_F(PipelineTest, CancelEndsEveryStage) {
  StartWorkers(2);
  cluster_->Submit(
      Job("endless", 64, 1000000, "strategy: MODEL_PARALLEL resources { workers: 2 }"));
  const auto running = cluster_->AwaitDescription("endless", "\"steps_done\"", absl::Seconds(60));
  ASSERT_TRUE(running.ok()) << running.status();
  const Finished cancelled = cluster_->Client({"cancel", "endless"}, kCommandDeadline);
  EXPECT_EQ(cancelled.exit_code, 0) << cancelled.output;
  cluster_->Submit(Job("after", 16, 1, "strategy: MODEL_PARALLEL resources { workers: 2 }"));
  ExpectSucceeds("after");
}

}  // namespace
}  // namespace sangam::testing
