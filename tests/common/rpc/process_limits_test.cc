#include "common/rpc/process_limits.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(ProcessLimitsTest, FilesAreRaisedAndCoreFilesAndNewRightsAreNot) {
  rlimit core = {};
  ASSERT_EQ(getrlimit(RLIMIT_CORE, &core), 0);
  const rlim_t hard_core = core.rlim_max;
  core.rlim_cur = core.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_CORE, &core), 0);
  rlimit files = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);

  LimitProcess(true);
  ASSERT_EQ(getrlimit(RLIMIT_CORE, &core), 0);
  EXPECT_EQ(core.rlim_cur, hard_core);

  LimitProcess(false);
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(files.rlim_cur, files.rlim_max);
  ASSERT_EQ(getrlimit(RLIMIT_CORE, &core), 0);
  EXPECT_EQ(core.rlim_cur, 0u);
  EXPECT_EQ(core.rlim_max, hard_core);
  EXPECT_EQ(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
}

}  // namespace
}  // namespace sangam
