#include "client/commands/local_run.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/commands/run_directory.h"
#include "client/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/commands/fake_daemons.h"
#include "tests/client/script.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class LocalRunTest : public CommandFixture {
 protected:
  LocalRunTest() {
    options_.spec.set_name("mlp");
    options_.cluster.worker_binary = IdleWorker(directory_);
    options_.cluster.stop_deadline = absl::Seconds(10);
  }

  // Runs with the fake server that takes this course.
  ExitCode RunCourse(const std::string& course) {
    options_.cluster.server_binary = FakeServer(directory_, course);
    auto directory = RunDirectory::Create(OutPath(""), false);
    EXPECT_TRUE(directory.ok()) << directory.status();
    return LocalRun(std::move(options_), directory->get(), environment_).Run();
  }
  std::string OutPath(const std::string& name) const {
    return absl::StrCat(directory_, "/out", name.empty() ? "" : "/", name);
  }
  nlohmann::json Job() const {
    return nlohmann::json::parse(ReadFile(OutPath("job.json"), 1 << 20).value_or("null"));
  }

  LocalRun::Options options_;
};

TEST_F(LocalRunTest, SucceedsAndLeavesResultsOnly) {
  EXPECT_EQ(RunCourse("succeeds"), ExitCode::kSuccess) << err();
  EXPECT_EQ(out(), "job mlp SUCCEEDED steps=2 test_accuracy=0.7500 samples_per_second=1234\n");
  EXPECT_THAT(err(), StartsWith("starting 1 server and 1 worker with 1 thread each\n"));
  EXPECT_THAT(err(), HasSubstr("step 2/2 (100%)"));
  EXPECT_THAT(err(), HasSubstr("/model.safetensors: 1 tensor, 16 B, step 9\n"));
  EXPECT_EQ(Job()["state"], "SUCCEEDED");
  const std::string metrics = ReadFile(OutPath("metrics.jsonl"), 1 << 20).value_or("");
  EXPECT_THAT(metrics, HasSubstr("\"kind\":\"step\""));
  EXPECT_THAT(metrics, HasSubstr("\"kind\":\"evaluation\""));
  EXPECT_TRUE(ReadFile(OutPath("model.safetensors"), 1 << 20).ok());
  EXPECT_FALSE(ReadFile(OutPath("logs/server-0.log"), 1 << 20).ok());
}

TEST_F(LocalRunTest, KeepsLogsWhenAsked) {
  options_.keep_logs = true;
  EXPECT_EQ(RunCourse("succeeds"), ExitCode::kSuccess);
  EXPECT_TRUE(ReadFile(OutPath("logs/server-0.log"), 1 << 20).ok());
  EXPECT_THAT(err(), HasSubstr(absl::StrCat("logs: ", OutPath("logs"))));
}

TEST_F(LocalRunTest, AFailedJobShowsTheLogOfTheDaemonThatItNames) {
  EXPECT_EQ(RunCourse("fails"), ExitCode::kJobFailed);
  EXPECT_EQ(out(),
            "job mlp FAILED steps=2 test_accuracy=0.7500 reason=\"worker 'worker-0': no data\" "
            "samples_per_second=1234\n");
  EXPECT_THAT(err(), HasSubstr(absl::StrCat("the end of ", OutPath("logs/worker-0.log"),
                                            ":\n  worker --coordinator=127.0.0.1:")));
  EXPECT_EQ(Job()["state"], "FAILED");
  EXPECT_FALSE(ReadFile(OutPath("model.safetensors"), 1 << 20).ok());
}

TEST_F(LocalRunTest, ADaemonThatDoesNotStartFailsTheRun) {
  options_.cluster.worker_binary =
      WriteScript(absl::StrCat(directory_, "/broken"), "echo 'bad flag' >&2; exit 2");
  EXPECT_EQ(RunCourse("succeeds"), ExitCode::kJobFailed);
  EXPECT_THAT(out(), StartsWith("job mlp FAILED steps=0 reason=\"worker-0 exited with status 2"));
  EXPECT_THAT(err(), HasSubstr("worker-0.log:\n  bad flag\n"));
  EXPECT_EQ(Job()["state"], "FAILED");
}

TEST_F(LocalRunTest, ADaemonThatDiesLaterFailsTheRunAtOnce) {
  options_.cluster.worker_binary = WriteScript(absl::StrCat(directory_, "/dying"),
                                               "ready \"$name\"; sleep 0.3; echo 'oops'; exit 7");
  EXPECT_EQ(RunCourse("waits"), ExitCode::kJobFailed);
  EXPECT_THAT(out(), StartsWith("job mlp FAILED steps=2 "));
  EXPECT_THAT(out(), HasSubstr("reason=\"worker-0 exited with status 7"));
  EXPECT_THAT(err(), HasSubstr("worker-0.log:\n  oops\n"));
  EXPECT_EQ(Job()["progress"]["steps_done"], "2");
  EXPECT_EQ(Job()["history"].back()["state"], "FAILED");
}

TEST_F(LocalRunTest, ARefusedJobListsEveryFault) {
  EXPECT_EQ(RunCourse("refuses"), ExitCode::kUsage);
  EXPECT_THAT(err(), HasSubstr("\nbatch.shares: found 9\noptimizer: missing\n"));
  EXPECT_EQ(out(), "job mlp FAILED steps=0 reason=\"batch.shares: found 9; optimizer: missing\"\n");
}

TEST_F(LocalRunTest, AStalledJobFails) {
  options_.stall_timeout = absl::Milliseconds(300);
  EXPECT_EQ(RunCourse("waits"), ExitCode::kJobFailed);
  EXPECT_THAT(out(), HasSubstr("reason=\"the job gave no sign for 0.3s (--stall_timeout)\""));
}

TEST_F(LocalRunTest, AJobThatHasLostAWorkerForGoodFails) {
  options_.come_back_timeout = absl::Milliseconds(300);
  EXPECT_EQ(RunCourse("lost"), ExitCode::kJobFailed);
  EXPECT_THAT(out(), StartsWith("job mlp FAILED steps=2 "));
  EXPECT_THAT(out(), HasSubstr("reason=\"worker worker-0 has lost its device\""));
  EXPECT_THAT(err(), HasSubstr(absl::StrCat("the end of ", OutPath("logs/worker-0.log"))));
}

TEST_F(LocalRunTest, WeightsThatCannotBeReadFailTheRun) {
  EXPECT_EQ(RunCourse("loses"), ExitCode::kJobFailed);
  EXPECT_THAT(out(), HasSubstr("FAILED"));
  EXPECT_THAT(out(), HasSubstr("the job succeeded, but its weights cannot be exported: no server"));
}

TEST_F(LocalRunTest, AnInterruptCancelsTheJob) {
  int asked = 0;
  environment_.interrupts = [&asked] { return ++asked > 40 ? 1 : 0; };
  EXPECT_EQ(RunCourse("waits"), ExitCode::kInterrupted);
  EXPECT_THAT(out(), StartsWith("job mlp CANCELLED steps=2"));
  EXPECT_THAT(out(), HasSubstr("reason=\"interrupted\""));
  EXPECT_THAT(err(), HasSubstr("interrupted; stopping the daemons (Ctrl-C again kills them)\n"));
  EXPECT_THAT(err(), Not(HasSubstr("the end of")));
  EXPECT_EQ(Job()["state"], "CANCELLED");
}

TEST_F(LocalRunTest, AnInterruptBeforeTheJobStopsToo) {
  interrupts_ = 1;
  EXPECT_EQ(RunCourse("succeeds"), ExitCode::kInterrupted);
  EXPECT_EQ(out(), "job mlp CANCELLED steps=0 reason=\"interrupted\"\n");
}

}  // namespace
}  // namespace sangam
