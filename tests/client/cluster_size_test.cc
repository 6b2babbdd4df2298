#include "client/cluster_size.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/files.h"
#include "client/job_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

v1::JobSpec Shipped(const std::string& name) {
  const std::string path = absl::StrCat("deploy/jobs/", name, ".textproto");
  return *ParseJobFile(*ReadFile(path, kMiB), path);
}

TEST(ClusterSizeTest, CountsWhatAJobKeepsOnItsServers) {
  v1::JobSpec spec = Shipped("fashion_mnist_mlp");
  spec.mutable_resources()->set_workers(2);
  spec.mutable_resources()->set_servers(1);
  spec.clear_checkpoint();
  const ClusterSize size = *SizeOf(spec, 1);
  EXPECT_EQ(size.servers.count, 1u);
  EXPECT_EQ(size.workers.count, 2u);
  // Two versions of the weights and what the optimizer keeps; one gradient waits for its sibling.
  EXPECT_EQ(size.servers.job % (size.parameters * sizeof(float)), 0u);
  EXPECT_GE(size.servers.job, 2 * size.parameters * sizeof(float));
  EXPECT_EQ(size.servers.waiting, size.parameters * sizeof(float));
  EXPECT_GT(size.workers.job, size.parameters * sizeof(float));
  EXPECT_EQ(size.disk, 0u);
  // Three workers have spans of 3 + 3 + 2 of 8 shares: [0,2) [2,3), [3,4) [4,6), [6,8).
  spec.mutable_resources()->set_workers(3);
  EXPECT_EQ(SizeOf(spec, 1)->servers.waiting, 4 * size.parameters * sizeof(float));
  // On two servers there is less on each.
  spec.mutable_resources()->set_servers(2);
  EXPECT_LT(SizeOf(spec, 1)->servers.job, size.servers.job);
}

TEST(ClusterSizeTest, DiskHoldsTheKeptCheckpointsAndOneMore) {
  v1::JobSpec spec = Shipped("fashion_mnist_mlp");
  spec.mutable_optimizer()->mutable_adamw();
  spec.mutable_checkpoint()->set_every_steps(10);
  spec.mutable_checkpoint()->set_keep(3);
  const ClusterSize size = *SizeOf(spec, 1);
  EXPECT_EQ(size.checkpoint, 3 * size.parameters * sizeof(float));
  EXPECT_EQ(size.disk, 4 * size.checkpoint);
  EXPECT_THAT(FormatClusterSize(size), HasSubstr("DISK is --state_dir"));
}

TEST(ClusterSizeTest, MemoryIsEnoughAndRounded) {
  DaemonSize size;
  size.job = 1000 * kMiB;
  size.waiting = 100 * kMiB;
  EXPECT_GE(size.memory(), (1100 + 128) * kMiB * 6 / 5);
  EXPECT_EQ(size.memory() % (64 * kMiB), 0u);
  EXPECT_LT(size.memory(), (1100 + 128) * kMiB * 6 / 5 + 64 * kMiB);
}

TEST(ClusterSizeTest, PipelinesDivideTheModel) {
  v1::JobSpec spec = Shipped("gpt_text");
  spec.set_strategy(v1::DATA_PARALLEL);
  const ClusterSize data_parallel = *SizeOf(spec, 1);
  spec.set_strategy(v1::MODEL_PARALLEL);
  const ClusterSize model_parallel = *SizeOf(spec, 1);
  EXPECT_LT(model_parallel.workers.job, data_parallel.workers.job);
  EXPECT_THAT(FormatClusterSize(model_parallel), HasSubstr("MODEL_PARALLEL"));
}

TEST(ClusterSizeTest, FaultsAreNamed) {
  v1::JobSpec spec = Shipped("fashion_mnist_mlp");
  spec.mutable_batch()->set_size(0);
  const absl::Status status = SizeOf(spec, 1).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("batch.size"));
}

}  // namespace
}  // namespace sangam
