#include "client/commands/connection.h"

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/flags.h"
#include "gtest/gtest.h"
#include "tests/client/fake_console.h"

namespace sangam {
namespace {

TEST(ConnectionTest, FlagsGoBeforeTheEnvironment) {
  Environment environment;
  environment.coordinator = "from-environment:1";
  Connection connection;
  FlagSet flags;
  connection.AddFlags(environment, &flags);
  connection.AddOutputFlag(&flags);
  EXPECT_NE(flags.Help().find("Default: from-environment:1."), std::string::npos);
  EXPECT_FALSE(connection.json());
  EXPECT_EQ(connection.timeout(), absl::Seconds(10));
  ASSERT_TRUE(flags.Parse({"--output=json", "--timeout=2s", "--coordinator=bad"}).ok());
  EXPECT_TRUE(connection.json());
  EXPECT_EQ(connection.timeout(), absl::Seconds(2));
  EXPECT_TRUE(IsUsageError(connection.Connect(environment).status()));
}

TEST(ConnectionTest, ItsClientStopsWhenTheUserInterrupts) {
  FakeConsole console;
  Environment environment;
  environment.console = &console;
  environment.coordinator = "127.0.0.1:1";
  environment.interrupts = [] { return 1; };
  Connection connection;
  FlagSet flags;
  connection.AddFlags(environment, &flags);
  const auto client = connection.Connect(environment);
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*client)->Get("1").status(), absl::CancelledError("interrupted"));
}

}  // namespace
}  // namespace sangam
