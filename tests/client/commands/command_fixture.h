#ifndef SANGAM_TESTS_CLIENT_COMMANDS_COMMAND_FIXTURE_H_
#define SANGAM_TESTS_CLIENT_COMMANDS_COMMAND_FIXTURE_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/commands/command_list.h"
#include "client/files.h"
#include "common/base/clock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_console.h"
#include "tests/client/script.h"

namespace sangam {

// The steady time is real, because calls wait; the wall-clock time stands still.
class StandingClock : public Clock {
 public:
  absl::Duration Steady() const override { return Clock::Real().Steady(); }
  absl::Time Wall() const override { return absl::FromUnixSeconds(1'700'000'100); }
};

// Runs the program's commands in this process and keeps what they write.
class CommandFixture : public ::testing::Test {
 protected:
  CommandFixture()
      : directory_(FreshDirectory(
            absl::StrCat(::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name(),
                         "_", ::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    environment_.console = &console_;
    environment_.clock = &clock_;
    environment_.interrupts = [this] { return interrupts_; };
    // Nobody listens there; tests that need a coordinator set another one.
    environment_.coordinator = "127.0.0.1:1";
    environment_.program_directory = directory_;
  }

  // The exit code. Forgets what earlier commands wrote.
  int Run(const std::vector<std::string>& arguments) {
    console_.out.clear();
    console_.err.clear();
    return static_cast<int>(RunCommandLine(arguments, environment_));
  }
  std::string WriteFile(const std::string& name, const std::string& text) const {
    const std::string path = absl::StrCat(directory_, "/", name);
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    return path;
  }
  const std::string& out() const { return console_.out; }
  const std::string& err() const { return console_.err; }

  const std::string directory_;
  FakeConsole console_;
  StandingClock clock_;
  int interrupts_ = 0;
  Environment environment_;
};

}  // namespace sangam

#endif  // SANGAM_TESTS_CLIENT_COMMANDS_COMMAND_FIXTURE_H_
