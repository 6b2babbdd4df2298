#include "worker/runtime/job_runner.h"

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "tests/testing/fake_parameter_link.h"
#include "tests/testing/recording_sink.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/worker_job.h"
#include "worker/runtime/parameter_link.h"

namespace sangam {
namespace {

using testing::FakeParameterServer;
using testing::WorkerJob;

class JobRunnerTest : public ::testing::Test {
 protected:
  JobRunnerTest()
      : folder_(testing::FreshFolder(absl::StrCat(
            "job_runner_", ::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    testing::WriteData(WorkerJob(), folder_);
  }

  // A runner whose links lead to `server_` whatever the plan says.
  void Start(const v1::Assignment& served) {
    server_ = std::make_unique<FakeParameterServer>(served.spec(), served.plan());
    WorkerOptions options;
    options.name = "w0";
    options.incarnation = 1;
    options.data_root = folder_;
    options.threads = 2;
    options.trainer.stall_limit = absl::Seconds(60);
    options.make_link = server_->Factory();
    runner_ = JobRunner::Create(options).value();
    runner_->Start(&sink_);
  }

  static v1::Assignment Make(uint64_t job, uint64_t generation, v1::Assignment::Phase phase,
                             uint32_t epochs = 1) {
    WorkerJob described;
    described.job = job;
    described.generation = generation;
    described.epochs = epochs;
    return testing::MakeAssignment(described, phase);
  }

  uint64_t Count(uint64_t job, uint64_t generation, v1::JobReport::KindCase kind) {
    uint64_t count = 0;
    for (const auto& entry : sink_.entries()) {
      count +=
          entry.job == job && entry.generation == generation && entry.report.kind_case() == kind
              ? 1
              : 0;
    }
    return count;
  }

  const std::string folder_;
  testing::RecordingSink sink_;
  std::unique_ptr<FakeParameterServer> server_;
  std::unique_ptr<JobRunner> runner_;
};

TEST_F(JobRunnerTest, TakesAJobThroughItsPhases) {
  Start(Make(3, 1, v1::Assignment::RUN));
  runner_->Reconcile({Make(3, 1, v1::Assignment::PREPARE)});
  ASSERT_TRUE(sink_.AwaitLast(v1::JobReport::kReady));
  runner_->Reconcile({Make(3, 1, v1::Assignment::PREPARE)});  // the same again
  runner_->Reconcile({Make(3, 1, v1::Assignment::RUN)});
  ASSERT_TRUE(sink_.AwaitLast(v1::JobReport::kFinished));
  runner_->Reconcile({Make(3, 1, v1::Assignment::RUN)});  // does not begin again
  runner_->Reconcile({});
  runner_->Stop();
  EXPECT_EQ(Count(3, 1, v1::JobReport::kReady), 1);
  EXPECT_EQ(Count(3, 1, v1::JobReport::kStep), 4);
  EXPECT_EQ(Count(3, 1, v1::JobReport::kFinished), 1);
}

TEST_F(JobRunnerTest, CatchesUpWhenChangesWereMissed) {
  Start(Make(3, 2, v1::Assignment::RUN));
  // Neither generation 1 nor the PREPARE of generation 2 was ever seen.
  runner_->Reconcile({Make(3, 2, v1::Assignment::RUN)});
  ASSERT_TRUE(sink_.AwaitLast(v1::JobReport::kFinished));
  EXPECT_EQ(Count(3, 2, v1::JobReport::kReady), 1);
}

TEST_F(JobRunnerTest, LetsGoOfAJobThatIsNoLongerAssigned) {
  Start(Make(3, 1, v1::Assignment::RUN, 1'000'000));
  runner_->Reconcile({Make(3, 1, v1::Assignment::RUN, 1'000'000)});
  ASSERT_TRUE(server_->AwaitPushOf(5));
  runner_->Reconcile({});
  // The next job's preparation comes after the end of the first.
  runner_->Reconcile({Make(4, 1, v1::Assignment::PREPARE)});
  ASSERT_TRUE(sink_.AwaitLast(v1::JobReport::kReady));
  const size_t pushes = server_->pushes().size();
  runner_->Stop();
  EXPECT_EQ(server_->pushes().size(), pushes);
  EXPECT_EQ(Count(4, 1, v1::JobReport::kReady), 1);
  EXPECT_EQ(Count(3, 1, v1::JobReport::kFailed), 0);
  EXPECT_EQ(Count(3, 1, v1::JobReport::kFinished), 0);
}

TEST_F(JobRunnerTest, ANewGenerationReplacesTheOldOne) {
  Start(Make(3, 1, v1::Assignment::RUN, 1'000'000));
  runner_->Reconcile({Make(3, 1, v1::Assignment::RUN, 1'000'000)});
  ASSERT_TRUE(server_->AwaitPushOf(5));
  runner_->Reconcile({Make(3, 2, v1::Assignment::PREPARE)});
  ASSERT_TRUE(sink_.AwaitLast(v1::JobReport::kReady));
  runner_->Stop();
  EXPECT_EQ(Count(3, 2, v1::JobReport::kReady), 1);
  const auto entries = sink_.entries();
  EXPECT_EQ(entries.back().generation, 2);
}

TEST_F(JobRunnerTest, HoldsSeveralJobsAtOnce) {
  Start(Make(3, 1, v1::Assignment::RUN));
  runner_->Reconcile({Make(3, 1, v1::Assignment::PREPARE), Make(4, 1, v1::Assignment::PREPARE)});
  ASSERT_TRUE(sink_.Await(2));
  EXPECT_EQ(Count(3, 1, v1::JobReport::kReady), 1);
  EXPECT_EQ(Count(4, 1, v1::JobReport::kReady), 1);
}

TEST_F(JobRunnerTest, AJobRunsThoughAnotherIsSlowToEnd) {
  server_ = std::make_unique<FakeParameterServer>(Make(4, 1, v1::Assignment::RUN).spec(),
                                                  Make(4, 1, v1::Assignment::RUN).plan());
  std::promise<void> may_end;
  WorkerOptions options;
  options.name = "w0";
  options.incarnation = 1;
  options.data_root = folder_;
  options.trainer.stall_limit = absl::Seconds(60);
  options.make_link = [&, serve = server_->Factory()](
                          const v1::Plan& plan,
                          uint32_t worker) -> absl::StatusOr<std::unique_ptr<ParameterLink>> {
    if (plan.job() == 4) return serve(plan, worker);
    may_end.get_future().wait();
    return absl::CancelledError("at last");
  };
  runner_ = JobRunner::Create(options).value();
  runner_->Start(&sink_);
  runner_->Reconcile({Make(3, 1, v1::Assignment::RUN), Make(4, 1, v1::Assignment::PREPARE)});
  ASSERT_TRUE(sink_.Await(2));
  runner_->Reconcile({Make(4, 1, v1::Assignment::RUN)});
  EXPECT_TRUE(sink_.AwaitLast(v1::JobReport::kFinished));
  may_end.set_value();
  runner_->Stop();
}

TEST_F(JobRunnerTest, IgnoresPhasesThatWorkersNeverSee) {
  Start(Make(3, 1, v1::Assignment::RUN));
  runner_->Reconcile({Make(3, 1, v1::Assignment::HOLD)});
  runner_->Reconcile({Make(4, 1, v1::Assignment::PREPARE), Make(3, 1, v1::Assignment::HOLD)});
  ASSERT_TRUE(sink_.Await(1));
  runner_->Stop();
  EXPECT_EQ(sink_.entries().size(), 1);
  EXPECT_EQ(sink_.entries()[0].job, 4);
}

TEST_F(JobRunnerTest, KeepsWhatCameBeforeItsStartAndIgnoresWhatComesAfterItsStop) {
  const v1::Assignment assignment = Make(3, 1, v1::Assignment::PREPARE);
  WorkerOptions options;
  options.name = "w0";
  options.incarnation = 1;
  options.data_root = folder_;
  const std::unique_ptr<JobRunner> runner = JobRunner::Create(options).value();
  runner->Reconcile({assignment});
  EXPECT_TRUE(sink_.entries().empty());
  runner->Start(&sink_);
  ASSERT_TRUE(sink_.AwaitLast(v1::JobReport::kReady));
  runner->Stop();
  runner->Reconcile({Make(5, 1, v1::Assignment::PREPARE)});
  EXPECT_EQ(sink_.entries().size(), 1);
}

TEST_F(JobRunnerTest, RefusesAFolderOrABackendThatIsNotThere) {
  WorkerOptions options;
  options.data_root = folder_ + "/nowhere";
  EXPECT_EQ(JobRunner::Create(options).status().code(), absl::StatusCode::kNotFound);
  options.data_root = folder_;
  options.backend = "abacus";
  EXPECT_EQ(JobRunner::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(JobRunnerTest, StopEndsAJobInTheMiddle) {
  Start(Make(3, 1, v1::Assignment::RUN, 1'000'000));
  runner_->Reconcile({Make(3, 1, v1::Assignment::RUN, 1'000'000)});
  ASSERT_TRUE(server_->AwaitPushOf(5));
  runner_->Stop();
  EXPECT_EQ(Count(3, 1, v1::JobReport::kFinished), 0);
  EXPECT_EQ(Count(3, 1, v1::JobReport::kFailed), 0);
}

}  // namespace
}  // namespace sangam
