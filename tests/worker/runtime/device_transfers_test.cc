#include "worker/runtime/device_transfers.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "tests/testing/lazy_backend.h"
#include "tests/testing/worker_job.h"
#include "tests/worker/runtime/training_test.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using testing::LazyDevice;
using testing::Outcome;
using testing::TheLazyDevice;
using testing::WorkerJob;

constexpr v1::Schedule kSchedules[] = {v1::GPIPE, v1::ONE_F_ONE_B, v1::INTERLEAVED, v1::ZERO_BUBBLE,
                                       v1::EAGER_ONE_F_ONE_B};

// Whole jobs on a device that does nothing until it must: its kernels are the CPU's, so every bit
// has to be the same.
class DeviceTransfersTest : public testing::TrainingTest {
 protected:
  DeviceTransfersTest() { TheLazyDevice().Reset(LazyDevice::Haste::kNone); }
  ~DeviceTransfersTest() override {
    workers_.clear();
    EXPECT_EQ(TheLazyDevice().used(), 0);
    EXPECT_EQ(TheLazyDevice().pins(), 0);
  }

  Outcome OnCpu(const WorkerJob& job) {
    backend_ = "cpu";
    return Train(job, 1);
  }
  Outcome OnDevice(const WorkerJob& job, uint32_t threads,
                   LazyDevice::Haste haste = LazyDevice::Haste::kNone) {
    workers_.clear();
    TheLazyDevice().Reset(haste);
    backend_ = "lazy";
    const Outcome outcome = Train(job, threads);
    EXPECT_EQ(TheLazyDevice().beyond_reserve(), 0);
    return outcome;
  }
};

class HasteTest : public DeviceTransfersTest,
                  public ::testing::WithParamInterface<LazyDevice::Haste> {
 protected:
  // The job as a pipeline under every schedule.
  void ExpectSameInPipelines(WorkerJob job, uint32_t most_ranks, const Outcome& alone) {
    for (const v1::Schedule schedule : kSchedules) {
      for (uint32_t ranks = 2; ranks <= most_ranks; ++ranks) {
        for (uint32_t pipelines = 1; pipelines <= 2; ++pipelines) {
          // Ranks that the chunks leave blocks for.
          job.chunks = schedule == v1::INTERLEAVED ? 2 : 1;
          if (job.gpt && ranks * job.chunks > 5) continue;
          job.schedule = schedule;
          job.ranks = ranks;
          job.workers = ranks * pipelines;
          job.credits = 16;
          job.lanes = job.shares / pipelines >= 2 ? 2 : 1;
          EXPECT_TRUE(OnDevice(job, 1, GetParam()) == alone)
              << v1::Schedule_Name(schedule) << " ranks=" << ranks << " pipelines=" << pipelines;
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Hastes, HasteTest,
                         ::testing::Values(LazyDevice::Haste::kNone, LazyDevice::Haste::kUploads,
                                           LazyDevice::Haste::kSome));

TEST_P(HasteTest, OneJobOneResultForAnyNumberOfWorkersAndLanes) {
  struct Cut {
    uint32_t micro_batches, shares, train_samples;
  };
  for (const Cut& cut : std::vector<Cut>{{8, 8, 70}, {8, 3, 63}, {1, 1, 70}, {20, 6, 61}}) {
    WorkerJob job;
    job.micro_batches = cut.micro_batches;
    job.shares = cut.shares;
    job.train_samples = cut.train_samples;
    job.dropout = 0.4f;
    const Outcome alone = OnCpu(job);
    for (uint32_t workers = 1; workers <= 3; ++workers) {
      for (uint32_t threads = 1; threads <= 3; ++threads) {
        job.workers = workers;
        EXPECT_TRUE(OnDevice(job, threads, GetParam()) == alone)
            << "M=" << cut.micro_batches << " S=" << cut.shares << " workers=" << workers
            << " threads=" << threads;
      }
    }
  }
}

TEST_P(HasteTest, OneJobOneResultWithSkipConnectionsAndRecompute) {
  WorkerJob job;
  job.deep = true;
  job.dropout = 0.3f;
  job.train_samples = 63;  // micro-batches without samples
  job.shares = 3;
  ExpectSameInPipelines(job, 4, OnCpu(job));
}

TEST_P(HasteTest, OneJobOneResultWithTiedBlocks) {
  WorkerJob job;
  job.gpt = true;
  job.dropout = 0.2f;
  job.shares = 3;
  const Outcome alone = OnCpu(job);
  EXPECT_TRUE(OnDevice(job, 2, GetParam()) == alone);
  ExpectSameInPipelines(job, 3, alone);
}

TEST_P(HasteTest, OneJobOneResultForANetworkOverImages) {
  WorkerJob job;
  job.cnn = true;
  job.dropout = 0.2f;
  job.train_samples = 63;
  job.shares = 3;
  job.epochs = 1;
  const Outcome alone = OnCpu(job);
  EXPECT_TRUE(OnDevice(job, 2, GetParam()) == alone);
  ExpectSameInPipelines(job, 2, alone);
}

TEST_F(DeviceTransfersTest, GradientsLeaveBlockByBlock) {
  OnDevice(WorkerJob(), 1);
  const auto pushes = server_->pushes();
  ASSERT_EQ(pushes.size(), 8 * 3);
  for (size_t i = 0; i < pushes.size(); ++i) {
    EXPECT_EQ(pushes[i].step, i / 3);
    EXPECT_EQ(pushes[i].segment, 2 - i % 3);
    EXPECT_EQ(pushes[i].samples, pushes[i].step % 4 == 3 ? 10 : 20);
  }
}

TEST_F(DeviceTransfersTest, PinsEachBufferOnce) {
  WorkerJob job;
  job.deep = true;
  job.ranks = job.workers = 3;
  job.lanes = 2;
  OnDevice(job, 1);
  const uint64_t pinned = TheLazyDevice().times_pinned();
  EXPECT_GT(pinned, 20);
  // More steps meet no more buffers than there are, whatever they are used for.
  job.epochs = 8;
  OnDevice(job, 1);
  EXPECT_LT(TheLazyDevice().times_pinned(), 2 * pinned);
}

// Every operation of a run may be the one at which the device fails.
TEST_F(DeviceTransfersTest, AFailingDeviceEndsTheRunWithItsText) {
  std::vector<WorkerJob> jobs(3);
  jobs[0].epochs = 1;
  jobs[1].epochs = 1;
  jobs[1].workers = 2;
  jobs[1].shares = 4;
  jobs[2].deep = true;
  jobs[2].epochs = 1;
  jobs[2].ranks = jobs[2].workers = 2;
  jobs[2].lanes = 2;
  jobs[2].credits = 16;
  uint64_t failed = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    OnDevice(jobs[j], 2);
    const uint64_t operations = TheLazyDevice().done();
    ASSERT_GT(operations, 100);
    for (uint64_t n = 1; n <= operations; n += std::max<uint64_t>(1, operations / 40)) {
      SCOPED_TRACE(absl::StrCat("job ", j, ", operation ", n, " of ", operations));
      workers_.clear();
      TheLazyDevice().Reset(n % 2 == 0 ? LazyDevice::Haste::kNone : LazyDevice::Haste::kSome);
      Prepare(jobs[j], 2);
      TheLazyDevice().FailAt(n);
      // How many operations there are depends on who waits for what.
      const std::vector<absl::Status> statuses = RunUntilOneFails();
      const bool reached = TheLazyDevice().done() >= n;
      uint64_t told = 0;
      for (const absl::Status& status : statuses) {
        if (status.code() == absl::StatusCode::kInternal) {
          ++told;
          EXPECT_THAT(std::string(status.message()), HasSubstr("lazy device: operation "));
        } else {
          EXPECT_TRUE(absl::IsCancelled(status) || status.ok()) << status;
        }
      }
      EXPECT_EQ(told > 0, reached);
      failed += told > 0 ? 1 : 0;
      workers_.clear();
      EXPECT_EQ(TheLazyDevice().used(), 0);
    }
  }
  EXPECT_GT(failed, 100);
}

TEST_F(DeviceTransfersTest, ErrorsThatAreFoundLaterNameTheirInstruction) {
  WorkerJob job;
  job.epochs = 1;
  backend_ = "lazy";
  Prepare(job, 1);
  // The server refuses the first gradient, which the lane has left to its thread.
  server_->FailAt(0, absl::UnavailableError("server s1 cannot be reached"));
  EXPECT_EQ(RunAll()[0], absl::UnavailableError("server s1 cannot be reached"));
  workers_.clear();
  TheLazyDevice().Reset(LazyDevice::Haste::kNone);
  Prepare(job, 1);
  TheLazyDevice().FailAt(30);
  EXPECT_THAT(std::string(RunAll()[0].message()), HasSubstr("training at step 0, "));
}

TEST_F(DeviceTransfersTest, StopEndsLanesInTheMiddle) {
  for (const bool pipeline : {false, true}) {
    WorkerJob job;
    job.deep = pipeline;
    job.epochs = 1'000'000;
    if (pipeline) job.ranks = job.workers = job.lanes = 2;
    workers_.clear();
    backend_ = "lazy";
    Prepare(job, 2);
    std::thread stopper([this] {
      EXPECT_TRUE(server_->AwaitPushOf(20));
      for (const auto& worker : workers_) worker->trainer->Stop();
    });
    for (const absl::Status& status : RunAll()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    }
    stopper.join();
  }
}

TEST_F(DeviceTransfersTest, StopEndsLanesThatWaitForWeights) {
  WorkerJob job;
  job.epochs = 1000;
  backend_ = "lazy";
  Prepare(job, 2);
  server_->HoldBack(3);
  std::thread stopper([this] {
    EXPECT_TRUE(server_->AwaitPushOf(2));
    workers_[0]->trainer->Stop();
  });
  EXPECT_EQ(RunAll()[0].code(), absl::StatusCode::kCancelled);
  stopper.join();
}

// Blocks are timed in a few steps only, in which the lane waits for each.
TEST_F(DeviceTransfersTest, ReportsTimesAndTraces) {
  OnDevice(WorkerJob(), 1);
  int traces = 0;
  int times = 0;
  for (const auto& entry : workers_[0]->sink.entries()) {
    traces += entry.report.has_trace() ? 1 : 0;
    if (!entry.report.has_block_times()) continue;
    ++times;
    EXPECT_EQ(entry.report.block_times().block_size(), 5);
    // Step 5 alone, which has a whole batch.
    for (const v1::BlockTime& block : entry.report.block_times().block()) {
      EXPECT_EQ(block.samples(), 20);
    }
  }
  EXPECT_EQ(traces, 8);
  EXPECT_EQ(times, 1);
}

TEST_F(DeviceTransfersTest, SaysWhatNeedsHowMuchOfTheDevicesMemory) {
  const WorkerJob job;
  testing::WriteData(job, folder_);
  const v1::Assignment assignment = testing::MakeAssignment(job, v1::Assignment::RUN);
  PrepareOptions prepare;
  prepare.data_root = &root_;
  prepare.threads = 2;
  prepare.backend = "lazy";
  TheLazyDevice().SetMemory(8000);
  const auto refused = PrepareJob(assignment, 0, prepare);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  for (const char* words : {"memory of lane 0: lane 0 of 2 needs 0.0 MiB of the device's memory",
                            "weights 0.0, gradients 0.0, activations 0.0, messages and batches 0.0",
                            "8000 bytes free of 8000"}) {
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(words));
  }
  EXPECT_EQ(TheLazyDevice().used(), 0);

  // The first lane has the weights, so the second one needs less.
  TheLazyDevice().SetMemory(uint64_t{1} << 30);
  const auto job_of_two = PrepareJob(assignment, 0, prepare);
  ASSERT_TRUE(job_of_two.ok()) << job_of_two.status();
  EXPECT_EQ((*job_of_two)->lanes[0].device->weights.size(), 3);
  EXPECT_TRUE((*job_of_two)->lanes[1].device->weights.empty());
  const uint64_t both = TheLazyDevice().used();
  TheLazyDevice().SetMemory(both + both - 1);
  EXPECT_THAT(std::string(PrepareJob(assignment, 0, prepare).status().message()),
              HasSubstr("memory of lane 1: lane 1 of 2 needs"));
}

// The limit is the host's, where a device's activations take nothing.
TEST_F(DeviceTransfersTest, TheLimitIsOfTheHostsMemory) {
  WorkerJob job;
  job.deep = true;
  job.batch = 1000;
  job.micro_batches = job.shares = 1;
  testing::WriteData(job, folder_);
  const v1::Assignment assignment = testing::MakeAssignment(job, v1::Assignment::RUN);
  PrepareOptions prepare;
  prepare.data_root = &root_;
  prepare.memory_limit = 1;
  std::string cpu(PrepareJob(assignment, 0, prepare).status().message());
  EXPECT_THAT(cpu, ::testing::Not(HasSubstr("activations 0.0")));
  prepare.backend = "lazy";
  std::string device(PrepareJob(assignment, 0, prepare).status().message());
  EXPECT_THAT(device, HasSubstr("activations 0.0"));
  prepare.device = 1;
  EXPECT_EQ(PrepareJob(assignment, 0, prepare).status().code(),
            absl::StatusCode::kResourceExhausted);
  prepare.memory_limit = 0;
  EXPECT_EQ(PrepareJob(assignment, 0, prepare).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace sangam
