#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/testing/worker_job.h"
#include "tests/worker/runtime/training_test.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/cuda/sequences.h"

// Whole jobs on the CUDA backend, over the stand-in for CUDA.
namespace sangam {
namespace {

using testing::Outcome;
using testing::WorkerJob;

class CudaTrainingTest : public testing::TrainingTest {
 protected:
  // The job has one result on GPUs, whoever computes it, and the CPU's but for roundings.
  void ExpectOneResult(WorkerJob job) {
    job.epochs = 1;
    job.shares = 2;
    job.micro_batches = 4;
    job.credits = 16;
    const Outcome cpu = Train(job, 1);
    backend_ = "cuda";
    graphs_ = false;
    workers_.clear();
    const int64_t without_graphs = NumCudaGraphLaunches();
    const Outcome alone = Train(job, 1);
    EXPECT_EQ(NumCudaGraphLaunches(), without_graphs);
    graphs_ = true;
    ASSERT_EQ(alone.weights.size(), cpu.weights.size());
    for (size_t s = 0; s < cpu.weights.size(); ++s) {
      for (size_t e = 0; e < cpu.weights[s].size(); ++e) {
        ASSERT_NEAR(alone.weights[s][e], cpu.weights[s][e], 1e-4) << s << " " << e;
      }
    }
    ASSERT_EQ(alone.losses.size(), cpu.losses.size());
    for (const auto& [key, loss] : cpu.losses) {
      EXPECT_NEAR(alone.losses.at(key).first, loss.first, 1e-4 * std::abs(loss.first) + 1e-4);
    }
    ExpectSame(job, 1, alone);
    ExpectSame(job, 2, alone);
    job.workers = 2;
    ExpectSame(job, 1, alone);
    job.ranks = 2;
    job.lanes = 2;
    job.schedule = v1::ZERO_BUBBLE;
    ExpectSame(job, 1, alone);
  }

 private:
  // With graphs, and without taking memory in any step.
  void ExpectSame(const WorkerJob& job, uint32_t threads, const Outcome& expected) {
    workers_.clear();
    Prepare(job, threads);
    const int64_t graphs = NumCudaGraphLaunches();
    const int64_t allocations = NumCudaAllocations();
    for (const absl::Status& status : RunAll()) EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(NumCudaAllocations(), allocations);
    EXPECT_GT(NumCudaGraphLaunches(), graphs);
    EXPECT_TRUE(Collect() == expected);
  }
};

TEST_F(CudaTrainingTest, SkipConnectionsAndRecompute) {
  WorkerJob job;
  job.deep = true;
  job.dropout = 0.3f;
  ExpectOneResult(job);
}

TEST_F(CudaTrainingTest, TiedBlocks) {
  WorkerJob job;
  job.gpt = true;
  job.dropout = 0.2f;
  ExpectOneResult(job);
}

TEST_F(CudaTrainingTest, ANetworkOverImages) {
  WorkerJob job;
  job.cnn = true;
  ExpectOneResult(job);
}

}  // namespace
}  // namespace sangam
