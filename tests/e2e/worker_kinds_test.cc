// CPUs that multiply with other kernels sum in other orders: no job is on both.
#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kDeadline = absl::Seconds(120);

TEST(WorkerKindsTest, AJobWaitsForWorkersWithTheSameKernels) {
  if (!__builtin_cpu_supports("avx")) GTEST_SKIP() << "this machine has one set of kernels";
  const std::string folder = FreshFolder("kinds");
  WriteTestData(folder, 500, 50);
  Cluster cluster({folder, folder, "2s"});
  cluster.StartCoordinator("all");
  const auto start_old = [&cluster](const char* name) {
    cluster.StartWorker(name, {}, {"/usr/bin/env", "DNNL_MAX_CPU_ISA=SSE41", WorkerBinary()});
  };
  start_old("old-1");
  cluster.StartWorker("usual");
  TestJob job;
  job.name = "job";
  job.workers = 2;
  cluster.Submit(JobText(job));
  EXPECT_TRUE(cluster.AwaitDescription("job", "1 x cpu (SSE41)", kDeadline).ok());
  start_old("old-2");
  const Finished watched = cluster.Client({"watch", "job"}, kDeadline);
  EXPECT_EQ(watched.exit_code, 0) << watched.output;
  EXPECT_THAT(watched.output, HasSubstr("on workers old-1, old-2"));
  EXPECT_THAT(watched.output, Not(HasSubstr("usual")));
}

}  // namespace
}  // namespace sangam::testing
