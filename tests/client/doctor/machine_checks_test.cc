#include "client/doctor/machine_checks.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/script.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kExbibyte = uint64_t{1} << 60;

TEST(MachineChecksTest, FewDescriptorsAreAFault) {
  const auto look = [] {
    rlimit low = {};
    low.rlim_cur = 64;
    low.rlim_max = 64;
    setrlimit(RLIMIT_NOFILE, &low);
    const Finding finding = CheckDescriptors();
    const bool named = finding.found.find("may open 64 files") != std::string::npos;
    std::exit(finding.verdict == Verdict::kFault && named ? 7 : 8);
  };
  // In a process of its own: a hard limit cannot be raised again.
  EXPECT_EXIT(look(), ::testing::ExitedWithCode(7), "");
}

TEST(MachineChecksTest, MemoryIsComparedWithTheJobs) {
  EXPECT_EQ(CheckMemory(0).verdict, Verdict::kGood);
  EXPECT_EQ(CheckMemory(1).verdict, Verdict::kGood);
  const Finding finding = CheckMemory(kExbibyte);
  EXPECT_EQ(finding.verdict, Verdict::kFault);
  EXPECT_THAT(finding.found, HasSubstr("needs 1.0 EiB"));
}

TEST(MachineChecksTest, StateDirs) {
  const std::string folder = FreshDirectory("doctor_state");
  EXPECT_NE(CheckStateDir(folder, 0).verdict, Verdict::kFault);
  EXPECT_EQ(CheckStateDir(folder, kExbibyte).verdict, Verdict::kFault);
  EXPECT_THAT(CheckStateDir(folder, kExbibyte).fix, HasSubstr("make room"));
  EXPECT_THAT(CheckStateDir(folder + "/no", 0).found, HasSubstr("No such file"));
  ASSERT_TRUE(WriteFileAtomically(folder + "/file", "x").ok());
  EXPECT_EQ(CheckStateDir(folder + "/file", 0).found, "is no folder");
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  chmod(folder.c_str(), 0500);
  EXPECT_THAT(CheckStateDir(folder, 0).found, HasSubstr("cannot be written"));
}

// Where nobody may write, whoever asks.
TEST(MachineChecksTest, AReadOnlyFileSystemIsNoStateDir) {
  const Finding finding = CheckStateDir("/proc/self/task", 0);
  EXPECT_EQ(finding.verdict, Verdict::kFault);
}

TEST(MachineChecksTest, DataRoots) {
  const std::string folder = FreshDirectory("doctor_data");
  EXPECT_EQ(CheckDataRoot(folder).verdict, Verdict::kGood);
  EXPECT_THAT(CheckDataRoot(folder + "/no").found, HasSubstr("No such file"));
  ASSERT_TRUE(WriteFileAtomically(folder + "/file", "x").ok());
  EXPECT_EQ(CheckDataRoot(folder + "/file").verdict, Verdict::kFault);
}

TEST(MachineChecksTest, ProxiesAreNamed) {
  EXPECT_EQ(CheckProxy({}).verdict, Verdict::kGood);
  const Finding finding = CheckProxy({"https_proxy"});
  EXPECT_EQ(finding.verdict, Verdict::kWarning);
  EXPECT_THAT(finding.found, HasSubstr("https_proxy"));
}

TEST(MachineChecksTest, AGpuIsAFaultOnlyWhereItIsWanted) {
  EXPECT_NE(CheckGpu(false, 0).verdict, Verdict::kFault);
  // No machine has so many.
  const Finding finding = CheckGpu(true, 1000);
  EXPECT_EQ(finding.verdict, Verdict::kFault);
  EXPECT_FALSE(finding.fix.empty());
}

TEST(MachineChecksTest, TheClockIsLookedAt) {
  EXPECT_NE(CheckClockSource().verdict, Verdict::kFault);
}

}  // namespace
}  // namespace sangam
