#include "common/data/open_beneath.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/data/data_root.h"
#include "common/data/input_file.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using Opener = int (*)(const std::string&);

class OpenBeneathTest : public ::testing::TestWithParam<Opener> {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/beneath-XXXXXX");
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    // The way there must have no links either.
    char* real = realpath(folder_.c_str(), nullptr);
    folder_ = real;
    std::free(real);
    ASSERT_EQ(mkdir(Path("root").c_str(), 0700), 0);
    ASSERT_EQ(mkdir(Path("root/sub").c_str(), 0700), 0);
    std::ofstream(Path("root/sub/file")) << "inside";
    std::ofstream(Path("secret")) << "outside";
  }
  std::string Path(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  // The content, or the error's number.
  std::string Read(const std::string& path) {
    const int fd = GetParam()(path);
    if (fd < 0) return absl::StrCat(errno);
    char text[16] = {};
    const ssize_t count = read(fd, text, sizeof(text));
    close(fd);
    return count < 0 ? absl::StrCat(errno) : std::string(text, static_cast<size_t>(count));
  }

  std::string folder_;
};

TEST_P(OpenBeneathTest, OpensFilesByTheirRealPath) {
  EXPECT_EQ(Read(Path("root/sub/file")), "inside");
  EXPECT_EQ(Read(Path("root//sub/file")), "inside");
  EXPECT_EQ(Read(Path("root/none")), absl::StrCat(ENOENT));
  EXPECT_EQ(Read(Path("root/sub/file/more")), absl::StrCat(ENOTDIR));
}

TEST_P(OpenBeneathTest, RefusesEveryLink) {
  ASSERT_EQ(symlink("../secret", Path("root/link").c_str()), 0);
  ASSERT_EQ(symlink("sub", Path("root/folder").c_str()), 0);
  EXPECT_EQ(Read(Path("root/link")), absl::StrCat(ELOOP));
  const std::string below = Read(Path("root/folder/file"));
  EXPECT_TRUE(below == absl::StrCat(ELOOP) || below == absl::StrCat(ENOTDIR)) << below;
  EXPECT_NE(Read("/proc/self/root/etc/passwd").substr(0, 4), "root");
}

TEST_P(OpenBeneathTest, DoesNotWaitForAFifo) {
  ASSERT_EQ(mkfifo(Path("root/fifo").c_str(), 0600), 0);
  const int fd = GetParam()(Path("root/fifo"));
  EXPECT_GE(fd, 0);  // InputFile sees what it is and refuses it.
  close(fd);
}

INSTANTIATE_TEST_SUITE_P(Ways, OpenBeneathTest,
                         ::testing::Values(&OpenWithoutLinks,
                                           &open_beneath_internal::OpenStepByStep));

using InsideTest = OpenBeneathTest;
INSTANTIATE_TEST_SUITE_P(Kernel, InsideTest, ::testing::Values(&OpenWithoutLinks));

// What jobs may name: through the root and the file, as the readers of data do it.
TEST_P(InsideTest, NoPathOfAJobLeadsOut) {
  const auto root = DataRoot::Create(Path("root"));
  ASSERT_TRUE(root.ok()) << root.status();
  ASSERT_EQ(symlink("../secret", Path("root/link").c_str()), 0);
  ASSERT_EQ(mkfifo(Path("root/fifo").c_str(), 0600), 0);
  const auto open = [&root](const std::string& path) {
    const auto real = root->Resolve(path);
    if (!real.ok()) return real.status();
    return InputFile::Open(*real, path).status();
  };
  EXPECT_TRUE(open("sub/file").ok());
  for (const std::string& path :
       {std::string("../secret"), std::string("sub/../../secret"), std::string("/etc/passwd"),
        std::string("link"), std::string("fifo"), std::string("sub"), std::string("."),
        std::string("sub/file\0", 9), std::string(), std::string(5000, 'a'),
        std::string("sub/") + std::string(300, 'b')}) {
    EXPECT_FALSE(open(path).ok()) << path.substr(0, 40);
  }
  const auto devices = DataRoot::Create("/dev");
  ASSERT_TRUE(devices.ok());
  EXPECT_FALSE(InputFile::Open(*devices->Resolve("zero"), "zero").ok());
}

// Somebody who can write below the root swaps a folder for a link while the path is looked up.
TEST_P(InsideTest, SwappedFoldersNeverLeadOut) {
  ASSERT_EQ(mkdir(Path("evil").c_str(), 0700), 0);
  std::ofstream(Path("evil/file")) << "outside";
  const auto root = DataRoot::Create(Path("root"));
  ASSERT_TRUE(root.ok()) << root.status();
  std::atomic<bool> done{false};
  std::thread swapper([&] {
    const std::string sub = Path("root/sub");
    const std::string kept = Path("root/kept");
    while (!done.load()) {
      std::rename(sub.c_str(), kept.c_str());
      (void)!symlink("../evil", sub.c_str());
      std::remove(sub.c_str());
      std::rename(kept.c_str(), sub.c_str());
    }
  });
  int inside = 0;
  const absl::Time deadline = absl::Now() + absl::Seconds(1);
  while (absl::Now() < deadline) {
    const auto real = root->Resolve("sub/file");
    if (!real.ok()) continue;
    const std::string content = Read(*real);
    EXPECT_NE(content, "outside");
    if (content == "inside") ++inside;
  }
  done.store(true);
  swapper.join();
  EXPECT_GT(inside, 0);
}

}  // namespace
}  // namespace sangam
