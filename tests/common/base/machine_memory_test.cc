#include "common/base/machine_memory.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class MachineMemoryTest : public ::testing::Test {
 protected:
  MachineMemoryTest() {
    folder_ = absl::StrCat(::testing::TempDir(), "/",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    sources_ = {folder_ + "/meminfo", folder_ + "/cgroup", folder_ + "/fs"};
    Write("meminfo", "MemTotal:       1048576 kB\nMemFree: 3 kB\n");
  }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::string folder_;
  MemorySources sources_;
};

TEST_F(MachineMemoryTest, IsTheMachinesWithoutALimit) {
  EXPECT_EQ(UsableMemoryBytes(sources_), 1024 * kMiB);
  Write("cgroup", "0::/a/b\n");
  Write("fs/a/b/memory.max", "max\n");
  EXPECT_EQ(UsableMemoryBytes(sources_), 1024 * kMiB);
  EXPECT_EQ(UsableMemoryBytes({"/nonexistent", "/nonexistent", "/nonexistent"}), 0u);
}

TEST_F(MachineMemoryTest, Version2HasTheLeastOfAllGroupsAround) {
  Write("cgroup", "0::/a/b\n");
  Write("fs/a/b/memory.max", "max\n");
  Write("fs/a/memory.max", absl::StrCat(100 * kMiB, "\n"));
  EXPECT_EQ(UsableMemoryBytes(sources_), 100 * kMiB);
  Write("fs/a/b/memory.max", absl::StrCat(64 * kMiB, "\n"));
  EXPECT_EQ(UsableMemoryBytes(sources_), 64 * kMiB);
}

TEST_F(MachineMemoryTest, AContainerSeesItsOwnGroupAtTheRoot) {
  Write("cgroup", "0::/kubepods/pod1/deadbeef\n");
  Write("fs/memory.max", absl::StrCat(32 * kMiB, "\n"));
  EXPECT_EQ(UsableMemoryBytes(sources_), 32 * kMiB);
}

TEST_F(MachineMemoryTest, Version1) {
  Write("cgroup", "12:cpu,cpuacct:/x\n4:memory:/job\n");
  // The number that the kernel gives for no limit.
  Write("fs/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(UsableMemoryBytes(sources_), 1024 * kMiB);
  Write("fs/memory/job/memory.limit_in_bytes", absl::StrCat(48 * kMiB, "\n"));
  EXPECT_EQ(UsableMemoryBytes(sources_), 48 * kMiB);
}

TEST(MachineMemoryHereTest, ThisMachineHasMemory) { EXPECT_GT(UsableMemoryBytes(), 64 * kMiB); }

}  // namespace
}  // namespace sangam
