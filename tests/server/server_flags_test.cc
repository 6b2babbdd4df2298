#include "server/server_flags.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"
#include "common/rpc/bind_rule.h"
#include "common/rpc/host_port.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/server_daemon.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<ServerOptions> OptionsOf(const std::vector<std::string>& arguments) {
  ServerFlags flags;
  FlagSet set;
  flags.AddFlags(&set);
  const auto rest = set.Parse(arguments);
  if (!rest.ok()) return rest.status();
  return flags.Options();
}

TEST(ServerFlagsTest, AloneItIsTheWholeServerOfThisMachine) {
  const auto options = OptionsOf({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->coordinate);
  EXPECT_TRUE(options->hold_pages);
  EXPECT_EQ(options->listen, "127.0.0.1:7070");
  EXPECT_GT(options->threads, 0);
  EXPECT_EQ(options->memory_limit, 0u);
  EXPECT_FALSE(options->name.empty());
}

TEST(ServerFlagsTest, FlagsBecomeOptions) {
  const auto options =
      OptionsOf({"--role=coordinator", "--listen=:1", "--advertise=a:2", "--name=n", "--threads=3",
                 "--memory_limit=1GiB", "--data_root=/d", "--state_dir=/s", "--lease=7s",
                 "--keep_finished_jobs=2", "--link_gbps=8", "--start_deadline=9s",
                 "--max_running_jobs_of_one=5"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->coordinate);
  EXPECT_FALSE(options->hold_pages);
  EXPECT_EQ(options->listen, ":1");
  EXPECT_EQ(options->advertise, "a:2");
  EXPECT_EQ(options->name, "n");
  EXPECT_EQ(options->threads, 3);
  EXPECT_EQ(options->memory_limit, uint64_t{1} << 30);
  EXPECT_EQ(options->data_root, "/d");
  EXPECT_EQ(options->state_dir, "/s");
  EXPECT_EQ(options->control.lease, absl::Seconds(7));
  EXPECT_EQ(options->control.keep_finished_jobs, 2u);
  EXPECT_EQ(options->control.max_running_of_one, 5u);
  EXPECT_EQ(options->control.link_bytes_per_second, 1e9);
  EXPECT_EQ(options->start_deadline, absl::Seconds(9));
}

TEST(ServerFlagsTest, TheRoleFollowsFromTheCoordinator) {
  const auto joins = OptionsOf({"--coordinator=a:1"});
  ASSERT_TRUE(joins.ok());
  EXPECT_FALSE(joins->coordinate);
  EXPECT_TRUE(joins->hold_pages);
  EXPECT_THAT(OptionsOf({"--role=server"}).status().message(),
              HasSubstr("--role=server needs --coordinator"));
  EXPECT_THAT(OptionsOf({"--role=all", "--coordinator=a:1"}).status().message(),
              HasSubstr("--role=all does not go with --coordinator"));
  EXPECT_THAT(OptionsOf({"--coordinator=a:1", "--data_root=/d"}).status().message(),
              HasSubstr("--data_root"));
  EXPECT_THAT(OptionsOf({"--coordinator=a:1", "--state_dir=/d"}).status().message(),
              HasSubstr("--state_dir"));
}

TEST(ServerFlagsTest, ValuesOutOfRangeAreErrors) {
  EXPECT_THAT(OptionsOf({"--role=king"}).status().message(), HasSubstr("found 'king'"));
  EXPECT_THAT(OptionsOf({"--threads=1025"}).status().message(), HasSubstr("from 0 to 1024"));
  EXPECT_THAT(OptionsOf({"--lease=99ms"}).status().message(), HasSubstr("from 100ms to 1h"));
  EXPECT_THAT(OptionsOf({"--link_gbps=0"}).status().message(), HasSubstr("from 0.001 to 100000"));
}

TEST(ServerFlagsTest, ExamplesAreAccepted) {
  for (const ProgramText::Example& example : ServerProgram().examples) {
    std::vector<std::string> words = absl::StrSplit(example.command, ' ');
    EXPECT_EQ(words[0], "sangam-server");
    words.erase(words.begin());
    ServerFlags flags;
    FlagSet set;
    flags.AddFlags(&set);
    ASSERT_TRUE(set.Parse(words).ok()) << example.command;
    EXPECT_TRUE(flags.Options().ok()) << example.command;
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
