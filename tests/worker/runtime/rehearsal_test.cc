#include "worker/runtime/rehearsal.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/data_root.h"
#include "cuda_on_cpu/control.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "tests/testing/fake_pipeline_network.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/worker_job.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/runtime/prepared_job.h"

// On the stand-in for CUDA. That steps take no memory afterwards, cuda_training_test shows.
namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::WorkerJob;

class RehearsalTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<PreparedJob>> Prepare(const WorkerJob& job) {
    testing::WriteData(job, folder_);
    PrepareOptions options;
    options.data_root = &root_;
    options.backend = "cuda";
    options.make_pipeline_link = network_.Factory();
    return PrepareJob(testing::MakeAssignment(job, v1::Assignment::RUN), 0, options);
  }

  static size_t UsedMemory() {
    size_t free = 0;
    size_t total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return total - free;
  }

  const std::string folder_ = testing::FreshFolder("rehearsal");
  const DataRoot root_ = DataRoot::Create(folder_).value();
  testing::FakePipelineNetwork network_;
};

TEST_F(RehearsalTest, ASecondOneFindsEverythingThere) {
  for (const bool pipeline : {false, true}) {
    WorkerJob job;
    job.deep = true;
    job.dropout = 0.5f;
    if (pipeline) {
      job.workers = job.ranks = job.lanes = 2;
      job.schedule = v1::ZERO_BUBBLE;
    }
    const auto prepared = Prepare(job);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    const int64_t before = NumCudaAllocations();
    EXPECT_EQ(RehearseLane(prepared->get(), 0), absl::OkStatus());
    EXPECT_EQ(NumCudaAllocations(), before);
  }
}

TEST_F(RehearsalTest, MissingMemoryIsSaidBeforeAnyStep) {
  WorkerJob job;
  job.cnn = true;
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  const size_t before = UsedMemory();
  size_t enough = 0;
  {
    const auto prepared = Prepare(job);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    enough = UsedMemory();
  }
  EXPECT_EQ(UsedMemory(), before);
  cuda_on_cpu::SetDeviceMemory(enough - 1);
  const absl::Status status = Prepare(job).status();
  cuda_on_cpu::SetDeviceMemory(total);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("lane 0 of 1: operations need "),
                    HasSubstr(" MiB of the device's memory besides their matrices")));
}

}  // namespace
}  // namespace sangam
