#include "common/rpc/daemon_command.h"

#include <array>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/exit_code.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"
#include "common/rpc/daemon_flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class DaemonCommandTest : public ::testing::Test {
 protected:
  DaemonCommandTest() {
    program_.name = "sangam-x";
    program_.summary = "Does x.";
  }

  std::optional<ExitCode> Read(const std::vector<std::string>& arguments,
                               const std::vector<std::string>& environment = {}) {
    flags_ = DaemonFlags();
    FlagSet set;
    flags_.AddFlags("x", &set);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const auto end =
        ReadDaemonFlags({arguments, environment}, program_, "sangam-x 1\n", flags_, &set);
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return end;
  }

  ProgramText program_;
  DaemonFlags flags_;
  std::string out_;
  std::string err_;
};

TEST_F(DaemonCommandTest, InvocationsAreCopied) {
  std::string a = "x";
  std::string b = "--y";
  std::string c = "Z=1";
  std::array<char*, 2> argv = {a.data(), b.data()};
  std::array<char*, 2> environment = {c.data(), nullptr};
  const Invocation invocation = Invocation::Of(2, argv.data(), environment.data());
  EXPECT_THAT(invocation.arguments, ElementsAre("--y"));
  EXPECT_THAT(invocation.environment, ElementsAre("Z=1"));
}

TEST_F(DaemonCommandTest, GoesOnWithTheValuesOfAllSources) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/x.conf");
  std::ofstream(path) << "ready_file = /file\nstart_deadline = 3s\n";
  EXPECT_EQ(Read({"--ready_file=/flag"}, {absl::StrCat("SANGAM_CONFIG=", path)}), std::nullopt);
  EXPECT_EQ(flags_.ready_file, "/flag");
  EXPECT_EQ(flags_.start_deadline, absl::Seconds(3));
  EXPECT_EQ(out_ + err_, "");
}

TEST_F(DaemonCommandTest, HelpVersionAndConfigurationAreSuccesses) {
  EXPECT_EQ(Read({"--help"}), ExitCode::kSuccess);
  EXPECT_THAT(out_, StartsWith("Does x.\n\nUsage: sangam-x"));
  // The environment may be as wrong as it likes.
  EXPECT_EQ(Read({"--version"}, {"SANGAM_START_DEADLINE=x"}), ExitCode::kSuccess);
  EXPECT_EQ(out_, "sangam-x 1\n");
  EXPECT_EQ(Read({"--print_config"}, {"SANGAM_LOG_LEVEL=debug"}), ExitCode::kSuccess);
  EXPECT_THAT(out_, HasSubstr("log_level = debug  # environment variable SANGAM_LOG_LEVEL\n"));
  EXPECT_EQ(err_, "");
}

TEST_F(DaemonCommandTest, AWrongCommandLineIsBadUsage) {
  EXPECT_EQ(Read({"--log_levl=info"}), ExitCode::kUsage);
  EXPECT_EQ(err_, "sangam-x: unknown flag --log_levl; did you mean '--log_level'?; see --help\n");
  EXPECT_EQ(Read({"serve"}), ExitCode::kUsage);
  EXPECT_THAT(err_, HasSubstr("found 'serve', expected flags"));
  EXPECT_EQ(out_, "");
}

TEST_F(DaemonCommandTest, OtherSourcesThatAreWrongAreABadConfiguration) {
  EXPECT_EQ(Read({}, {"SANGAM_START_DEADLINE=x"}), ExitCode::kBadConfiguration);
  EXPECT_THAT(err_, HasSubstr("environment variable SANGAM_START_DEADLINE: found 'x'"));
  EXPECT_EQ(Read({"--config=/nonexistent/x"}), ExitCode::kBadConfiguration);
  EXPECT_THAT(err_, HasSubstr("\"/nonexistent/x\": No such file"));
}

TEST_F(DaemonCommandTest, UnknownVariablesAreTold) {
  EXPECT_EQ(Read({}, {"SANGAM_READY_FIL=x", "SANGAM_X_SERVICE_HOST=1"}), std::nullopt);
  EXPECT_THAT(err_, HasSubstr("unknown environment variable"));
  EXPECT_THAT(err_, HasSubstr("SANGAM_READY_FILE"));
  EXPECT_EQ(err_.find("SERVICE_HOST"), std::string::npos) << err_;
}

TEST_F(DaemonCommandTest, EndsWithTheCodeOfTheError) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(EndDaemon(program_, OfConfiguration(absl::FailedPreconditionError("locked"))), 78);
  EXPECT_EQ(EndDaemon(program_, absl::UnavailableError("gone")), 1);
  EXPECT_EQ(EndWithUsage(program_, absl::InvalidArgumentError("--x")), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "sangam-x: FAILED_PRECONDITION: locked\nsangam-x: UNAVAILABLE: gone\n"
            "sangam-x: --x; see --help\n");
}

}  // namespace
}  // namespace sangam
