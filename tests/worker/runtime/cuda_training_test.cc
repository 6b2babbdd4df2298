#include <cmath>
#include <cstddef>
#include <cstdint>

#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/testing/worker_job.h"
#include "tests/worker/runtime/training_test.h"

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
    workers_.clear();
    const Outcome alone = Train(job, 1);
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
    workers_.clear();
    EXPECT_TRUE(Train(job, 2) == alone);
    workers_.clear();
    job.workers = 2;
    EXPECT_TRUE(Train(job, 1) == alone);
    workers_.clear();
    job.ranks = 2;
    job.lanes = 2;
    job.schedule = v1::ZERO_BUBBLE;
    EXPECT_TRUE(Train(job, 1) == alone);
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
