#include "worker/worker_flags.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"
#include "common/rpc/bind_rule.h"
#include "common/rpc/host_port.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/runtime/job_runner.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class WorkerFlagsTest : public ::testing::Test {
 protected:
  WorkerFlagsTest() { flags_.AddFlags(&set_); }

  WorkerFlags flags_;
  FlagSet set_;
};

TEST_F(WorkerFlagsTest, TheCoordinatorIsRequired) {
  EXPECT_THAT(flags_.Check().message(), HasSubstr("--coordinator=HOST:PORT is required"));
  ASSERT_TRUE(set_.Parse({"--coordinator=a:1"}).ok());
  EXPECT_TRUE(flags_.Check().ok());
  EXPECT_EQ(flags_.ListenOptions().listen, "127.0.0.1:0");
  EXPECT_FALSE(flags_.Options().name.empty());
}

TEST_F(WorkerFlagsTest, FlagsBecomeOptions) {
  ASSERT_TRUE(
      set_.Parse({"--coordinator=a:1", "--listen=:7071", "--advertise=h", "--name=n", "--threads=3",
                  "--memory_limit=1GiB", "--data_root=/d", "--backend=cuda", "--device=2"})
          .ok());
  const WorkerOptions options = flags_.Options();
  EXPECT_EQ(options.name, "n");
  EXPECT_EQ(options.threads, 3u);
  EXPECT_EQ(options.memory_limit, uint64_t{1} << 30);
  EXPECT_EQ(options.data_root, "/d");
  EXPECT_EQ(options.backend, "cuda");
  EXPECT_EQ(options.device, 2);
  EXPECT_EQ(flags_.ListenOptions().listen, ":7071");
  EXPECT_EQ(flags_.ListenOptions().advertise, "h");
}

TEST_F(WorkerFlagsTest, ValuesOutOfRangeAreErrors) {
  EXPECT_THAT(set_.Parse({"--backend=abacus"}).status().message(),
              HasSubstr("found 'abacus', expected cpu or cuda"));
  EXPECT_FALSE(set_.Parse({"--device=-1"}).ok());
  EXPECT_FALSE(set_.Parse({"--threads=1025"}).ok());
}

TEST_F(WorkerFlagsTest, ExamplesAreAccepted) {
  for (const ProgramText::Example& example : WorkerProgram().examples) {
    std::vector<std::string> words = absl::StrSplit(example.command, ' ');
    EXPECT_EQ(words[0], "sangam-worker");
    words.erase(words.begin());
    WorkerFlags flags;
    FlagSet set;
    flags.AddFlags(&set);
    ASSERT_TRUE(set.Parse(words).ok()) << example.command;
    EXPECT_TRUE(flags.Check().ok()) << example.command;
    EXPECT_TRUE(flags.security.CheckDaemon().ok()) << example.command;
    const auto listen = ParseHostPort(flags.listen);
    ASSERT_TRUE(listen.ok()) << example.command;
    EXPECT_TRUE(
        CheckBind(listen->host, !flags.security.tls.empty(), flags.security.insecure_allow_remote)
            .ok())
        << example.command;
  }
}

}  // namespace
}  // namespace sangam
