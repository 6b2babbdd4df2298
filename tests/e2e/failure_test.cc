// What happens to a job when a daemon dies: within a lease it waits for another worker, or fails
// when pages are gone, and names the dead one; the others live on. How it goes on: takeover_test.
#include <signal.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

using ::testing::HasSubstr;

// Several times the lease of 2 s: a bound against hangs, not a measurement.
constexpr absl::Duration kFailDeadline = absl::Seconds(20);
constexpr absl::Duration kCommandDeadline = absl::Seconds(60);

class FailureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder =
        FreshFolder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    const std::string data = FreshFolder("failure-data");
    WriteTestData(data, 200, 70);
    cluster_ = std::make_unique<Cluster>(Cluster::Options{folder, data, "2s"});
  }

  // A job that would run for hours, under way.
  void StartEndlessJob(int workers, int servers) {
    TestJob job;
    job.name = "endless";
    job.epochs = 1000000;
    job.workers = workers;
    job.servers = servers;
    cluster_->Submit(JobText(job));
    const auto running = cluster_->AwaitDescription("endless", "\"steps_done\"", absl::Seconds(60));
    ASSERT_TRUE(running.ok()) << running.status();
  }

  // The cluster still trains.
  void ExpectAnotherJobSucceeds() {
    TestJob job;
    job.name = "after";
    cluster_->Submit(JobText(job));
    const Finished watched = cluster_->Client({"watch", "after"}, kCommandDeadline);
    EXPECT_EQ(watched.exit_code, 0) << watched.output;
    EXPECT_THAT(watched.output, HasSubstr("SUCCEEDED"));
  }

  std::unique_ptr<Cluster> cluster_;
};

TEST_F(FailureTest, KilledWorkerIsNamedAndTheJobWaitsForAnother) {
  cluster_->StartCoordinator("all");
  cluster_->StartWorker("w1");
  cluster_->StartWorker("w2");
  StartEndlessJob(2, 1);
  cluster_->daemon("w2").Signal(SIGKILL);
  const auto waiting = cluster_->AwaitDescription(
      "endless", "\"reason\": \"waiting for 1 of 2 workers (have: w1)\"", kFailDeadline);
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  EXPECT_THAT(*waiting, HasSubstr("worker w2 lost"));
  ExpectAnotherJobSucceeds();
  const Finished cancelled = cluster_->Client({"cancel", "endless"}, kCommandDeadline);
  EXPECT_EQ(cancelled.exit_code, 0) << cancelled.output;
  const Finished watched = cluster_->Client({"watch", "endless"}, kCommandDeadline);
  EXPECT_EQ(watched.exit_code, 4) << watched.output;
  EXPECT_THAT(watched.output, HasSubstr("PREEMPTED: worker w2 lost"));
}

TEST_F(FailureTest, KilledServerFailsTheJobByName) {
  cluster_->StartCoordinator("coordinator");
  cluster_->StartServer("s1");
  cluster_->StartServer("s2");
  cluster_->StartWorker("w1");
  StartEndlessJob(1, 2);
  cluster_->daemon("s2").Signal(SIGKILL);
  const auto failed = cluster_->AwaitDescription("endless", "\"FAILED\"", kFailDeadline);
  ASSERT_TRUE(failed.ok()) << failed.status();
  EXPECT_THAT(*failed, HasSubstr("server s2 lost"));
  ExpectAnotherJobSucceeds();
}

TEST_F(FailureTest, StoppedWorkerSaysGoodbye) {
  cluster_->StartCoordinator("all");
  cluster_->StartWorker("w1");
  StartEndlessJob(1, 1);
  cluster_->daemon("w1").Signal(SIGTERM);
  const auto end = cluster_->daemon("w1").Wait(absl::Seconds(20));
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->exit_code, 143);
  const auto left = cluster_->AwaitDescription("endless", "worker w1 drains", kFailDeadline);
  ASSERT_TRUE(left.ok()) << left.status();
}

TEST_F(FailureTest, CancelEndsTheJobAndFreesTheCluster) {
  cluster_->StartCoordinator("all");
  cluster_->StartWorker("w1");
  StartEndlessJob(1, 1);
  const Finished cancelled = cluster_->Client({"cancel", "endless"}, kCommandDeadline);
  EXPECT_EQ(cancelled.exit_code, 0) << cancelled.output;
  const auto described = cluster_->AwaitDescription("endless", "\"CANCELLED\"", kFailDeadline);
  EXPECT_TRUE(described.ok()) << described.status();
  ExpectAnotherJobSucceeds();
}

TEST_F(FailureTest, JobWaitsForWhatItAskedForAndSaysSo) {
  cluster_->StartCoordinator("all");
  cluster_->StartWorker("w1");
  TestJob job;
  job.name = "after";
  job.workers = 2;
  cluster_->Submit(JobText(job));
  const auto waiting = cluster_->AwaitDescription("after", "1 of 2 workers", kFailDeadline);
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  cluster_->StartWorker("w2");
  const Finished watched = cluster_->Client({"watch", "after"}, kCommandDeadline);
  EXPECT_EQ(watched.exit_code, 0) << watched.output;
}

TEST_F(FailureTest, KilledCoordinatorIsReportedByTheClient) {
  cluster_->StartCoordinator("all");
  cluster_->daemon("coordinator").Signal(SIGKILL);
  const Finished listed = cluster_->Client({"list", "--timeout=2s"}, kCommandDeadline);
  EXPECT_EQ(listed.exit_code, 7);
  EXPECT_THAT(listed.output, HasSubstr(cluster_->address()));
}

}  // namespace
}  // namespace sangam::testing
