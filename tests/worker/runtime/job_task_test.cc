#include "worker/runtime/job_task.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/data/data_root.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "tests/testing/fake_parameter_link.h"
#include "tests/testing/fake_pipeline_network.h"
#include "tests/testing/recording_sink.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/worker_job.h"
#include "worker/backend/backends.h"
#include "worker/backend/device_lost.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using testing::WorkerJob;

class JobTaskTest : public ::testing::Test {
 protected:
  JobTaskTest()
      : folder_(testing::FreshFolder(absl::StrCat(
            "job_task_", ::testing::UnitTest::GetInstance()->current_test_info()->name()))),
        root_(DataRoot::Create(folder_).value()) {
    Describe(WorkerJob());
    options_.name = "w0";
    options_.incarnation = 1;
    options_.data_root = &root_;
    options_.threads = 2;
    options_.trainer.stall_limit = absl::Seconds(60);
  }

  void Describe(const WorkerJob& job) {
    testing::WriteData(job, folder_);
    prepare_ = testing::MakeAssignment(job, v1::Assignment::PREPARE);
    run_ = testing::MakeAssignment(job, v1::Assignment::RUN);
    server_ = std::make_unique<testing::FakeParameterServer>(run_.spec(), run_.plan());
    options_.make_link = server_->Factory();
  }
  std::unique_ptr<JobTask> Begin() {
    return std::make_unique<JobTask>(&options_, &sink_, prepare_);
  }
  // The only report is a failure with this code and these words.
  void ExpectFails(absl::StatusCode code, const std::string& words) {
    ASSERT_TRUE(sink_.AwaitLast(v1::JobReport::kFailed));
    const auto entries = sink_.entries();
    EXPECT_EQ(entries.back().report.failed().code(), static_cast<int>(code));
    EXPECT_THAT(entries.back().report.failed().message(), HasSubstr(words));
    for (size_t i = 0; i + 1 < entries.size(); ++i) {
      EXPECT_NE(entries[i].report.kind_case(), v1::JobReport::kFailed);
    }
  }

  const std::string folder_;
  const DataRoot root_;
  TaskOptions options_;
  v1::Assignment prepare_;
  v1::Assignment run_;
  testing::RecordingSink sink_;
  std::unique_ptr<testing::FakeParameterServer> server_;
};

TEST_F(JobTaskTest, PreparesWaitsTrainsAndFinishes) {
  auto task = Begin();
  ASSERT_TRUE(sink_.Await(1));
  const auto ready = sink_.entries();
  ASSERT_TRUE(ready[0].report.has_ready());
  EXPECT_EQ(ready[0].job, 3);
  EXPECT_EQ(ready[0].generation, 1);
  EXPECT_EQ(ready[0].report.ready().train_samples(), 70);
  EXPECT_TRUE(server_->pushes().empty());
  task->Run(run_);
  task->Run(run_);  // again: nothing changes
  ASSERT_TRUE(sink_.AwaitLast(v1::JobReport::kFinished));
  const auto entries = sink_.entries();
  // Ready, steps and their traces, evaluations, block times, finished.
  EXPECT_EQ(entries.size(), 1 + 2 * 8 + 2 + 1 + 1);
}

TEST_F(JobTaskTest, MayBeToldToRunBeforeItIsReady) {
  auto task = Begin();
  task->Run(run_);
  EXPECT_TRUE(sink_.AwaitLast(v1::JobReport::kFinished));
}

TEST_F(JobTaskTest, AWorkerWithoutSharesFinishesWithoutALink) {
  WorkerJob job;
  job.workers = 9;
  Describe(job);  // worker 0 of 9 has none of the 8 shares
  options_.make_link = [](const v1::Plan&, uint32_t) {
    return absl::InternalError("no link is needed");
  };
  auto task = Begin();
  ASSERT_TRUE(sink_.AwaitLast(v1::JobReport::kReady));
  task->Run(run_);
  ASSERT_TRUE(sink_.AwaitLast(v1::JobReport::kFinished));
  EXPECT_EQ(sink_.entries().size(), 2);
}

TEST_F(JobTaskTest, ReportsDataThatCannotBeOpenedOnce) {
  prepare_.mutable_spec()->mutable_data()->mutable_idx()->set_train_images("nowhere");
  auto task = Begin();
  ExpectFails(absl::StatusCode::kNotFound, "data.idx.train_images: data path \"nowhere\"");
  EXPECT_EQ(sink_.entries().size(), 1);
}

TEST_F(JobTaskTest, ReportsAPlanWithoutThisWorker) {
  options_.incarnation = 2;
  auto task = Begin();
  ExpectFails(absl::StatusCode::kInvalidArgument, "no worker \"w0\" of incarnation 2");
}

TEST_F(JobTaskTest, ReportsAFailureOfTheLinkOnce) {
  server_->FailAt(3, absl::AbortedError("server s0: generation 1 is over"));
  auto task = Begin();
  task->Run(run_);
  ExpectFails(absl::StatusCode::kAborted, "server s0: generation 1 is over");
  EXPECT_FALSE(sink_.entries().back().report.failed().daemon_at_fault());
}

TEST_F(JobTaskTest, SaysWhenItIsTheDevicesFaultAndNotTheJobs) {
  server_->FailAt(3, DeviceLost("cuda: Gemm: an illegal memory access"));
  auto task = Begin();
  task->Run(run_);
  ExpectFails(absl::StatusCode::kInternal, "cuda: Gemm: an illegal memory access");
  EXPECT_TRUE(sink_.entries().back().report.failed().daemon_at_fault());
}

TEST_F(JobTaskTest, SaysSoToTheNextJobToo) {
  BackendKind gone;
  gone.name = "gone";
  gone.create = [](int, Precision) { return DeviceLost("cuda: no lane: the device is gone"); };
  gone.is_native = [](int, Precision) { return false; };
  gone.describe = [](int) { return BackendDevice(); };
  RegisterBackend(gone);
  options_.backend = "gone";
  auto task = Begin();
  ExpectFails(absl::StatusCode::kInternal, "the device is gone");
  EXPECT_TRUE(sink_.entries().back().report.failed().daemon_at_fault());
}

// Looks whether the worker's link is there when a report comes.
class LinkWatcher final : public testing::RecordingSink {
 public:
  explicit LinkWatcher(const testing::FakePipelineNetwork* network) : network_(network) {}
  void Report(uint64_t job, uint64_t generation, v1::JobReport report) override {
    if (report.has_failed()) linked_ = network_->Has(0);
    RecordingSink::Report(job, generation, std::move(report));
  }
  bool linked() const { return linked_; }

 private:
  const testing::FakePipelineNetwork* const network_;
  std::atomic<bool> linked_{false};
};

TEST_F(JobTaskTest, ReportsAFailureBeforeNeighboursFindTheJobGone) {
  WorkerJob job;
  job.deep = true;
  job.ranks = job.workers = 2;
  job.lanes = 1;
  Describe(job);
  testing::FakePipelineNetwork network;
  options_.make_pipeline_link = network.Factory();
  options_.make_link = [](const v1::Plan&, uint32_t) { return absl::InternalError("no link"); };
  LinkWatcher watcher(&network);
  JobTask task(&options_, &watcher, prepare_);
  task.Run(run_);
  ASSERT_TRUE(watcher.AwaitLast(v1::JobReport::kFailed));
  EXPECT_TRUE(watcher.linked());
}

TEST_F(JobTaskTest, StopsWithoutAWordWhileItWaitsToRun) {
  auto task = Begin();
  ASSERT_TRUE(sink_.Await(1));
  task.reset();
  EXPECT_EQ(sink_.entries().size(), 1);
}

TEST_F(JobTaskTest, StopsWithoutAWordWhileItTrains) {
  WorkerJob job;
  job.epochs = 1'000'000;
  Describe(job);
  auto task = Begin();
  task->Run(run_);
  ASSERT_TRUE(server_->AwaitPushOf(5));
  task.reset();
  for (const auto& entry : sink_.entries()) {
    EXPECT_NE(entry.report.kind_case(), v1::JobReport::kFailed);
    EXPECT_NE(entry.report.kind_case(), v1::JobReport::kFinished);
  }
}

TEST_F(JobTaskTest, StopsWithoutAWordWhileWeightsStayAway) {
  server_->HoldBack(0);
  auto task = Begin();
  task->Run(run_);
  ASSERT_TRUE(sink_.Await(1));
  task.reset();
  EXPECT_EQ(sink_.entries().size(), 1);
}

}  // namespace
}  // namespace sangam
