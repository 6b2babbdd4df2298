#include "client/commands/command.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/client/fake_console.h"

namespace sangam {
namespace {

TEST(CommandTest, UsageErrorsAreMarked) {
  EXPECT_TRUE(IsUsageError(UsageError("x")));
  EXPECT_TRUE(IsUsageError(UsageError(absl::NotFoundError("x"))));
  EXPECT_EQ(UsageError("x").message(), "x");
  EXPECT_EQ(UsageError(absl::NotFoundError("x")).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(IsUsageError(absl::InvalidArgumentError("x")));
  EXPECT_FALSE(IsUsageError(absl::OkStatus()));
}

TEST(CommandTest, InterruptsAndLostReadersStop) {
  FakeConsole console;
  int interrupts = 0;
  Environment environment;
  environment.console = &console;
  environment.interrupts = [&interrupts] { return interrupts; };
  EXPECT_TRUE(environment.CheckInterrupt().ok());
  console.is_broken = true;
  EXPECT_EQ(environment.CheckInterrupt(), absl::CancelledError("nobody reads the output"));
  interrupts = 1;
  EXPECT_EQ(environment.CheckInterrupt(), absl::CancelledError("interrupted"));
}

}  // namespace
}  // namespace sangam
