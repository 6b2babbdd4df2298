#include "common/rpc/limit_flags.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/machine_memory.h"
#include "common/flags/flags.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(LimitFlagsTest, ReadsEachLimit) {
  LimitFlags limits;
  FlagSet flags;
  limits.AddServerFlags(&flags);
  const auto rest = flags.Parse({"--memory_budget=64MiB", "--max_connections=9",
                                 "--stalled_call_timeout=5s", "--max_queued_jobs=3",
                                 "--max_queued_jobs_of_one=2", "--max_running_jobs_of_one=4"});
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(limits.max_running_jobs_of_one, 4u);
  EXPECT_EQ(limits.MemoryBudgetBytes(), uint64_t{64} << 20);
  EXPECT_EQ(limits.max_connections, 9u);
  EXPECT_EQ(limits.stalled_call_timeout, absl::Seconds(5));
  EXPECT_EQ(limits.max_queued_jobs, 3u);
  EXPECT_EQ(limits.max_queued_jobs_of_one, 2u);
}

TEST(LimitFlagsTest, TheBudgetIsAQuarterOfTheMemoryAndNeverTooLittle) {
  LimitFlags limits;
  EXPECT_GE(limits.MemoryBudgetBytes(), kLeastMemoryBudget);
  EXPECT_LE(limits.MemoryBudgetBytes(),
            std::max<uint64_t>(UsableMemoryBytes() / 4, uint64_t{1} << 30));
  limits.memory_budget = 1;
  EXPECT_EQ(limits.MemoryBudgetBytes(), kLeastMemoryBudget);
}

TEST(LimitFlagsTest, AWorkerHasNoQueue) {
  LimitFlags limits;
  FlagSet flags;
  limits.AddWorkerFlags(&flags);
  EXPECT_TRUE(absl::IsInvalidArgument(flags.Parse({"--max_queued_jobs=3"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(flags.Parse({"--max_connections=0"}).status()));
  EXPECT_TRUE(flags.Parse({"--max_connections=1"}).ok());
}

}  // namespace
}  // namespace sangam
