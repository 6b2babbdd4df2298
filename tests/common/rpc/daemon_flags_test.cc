#include "common/rpc/daemon_flags.h"

#include "absl/time/time.h"
#include "common/flags/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

TEST(DaemonFlagsTest, EveryDaemonHasThem) {
  DaemonFlags daemon;
  FlagSet flags;
  daemon.AddFlags("its name", &flags);
  ASSERT_TRUE(flags
                  .Parse({"--config=a", "--ready_file=b", "--log_level=debug",
                          "--start_deadline=1m", "--print_config", "--version"})
                  .ok());
  EXPECT_EQ(daemon.config, "a");
  EXPECT_EQ(daemon.ready_file, "b");
  EXPECT_EQ(daemon.log_level, "debug");
  EXPECT_EQ(daemon.start_deadline, absl::Minutes(1));
  EXPECT_TRUE(daemon.print_config);
  EXPECT_TRUE(daemon.version);
  EXPECT_THAT(flags.Help(), HasSubstr("Is written with its name once it serves."));
}

TEST(DaemonFlagsTest, WhatAsksIsForTheCommandLineOnly) {
  DaemonFlags daemon;
  FlagSet flags;
  daemon.AddFlags("x", &flags);
  EXPECT_FALSE(flags.Set("version", "true", Origin::kEnvironment, "e").ok());
  EXPECT_FALSE(flags.Set("print_config", "true", Origin::kFile, "f:1").ok());
  EXPECT_TRUE(flags.Find("log_level")->text.reloads);
}

}  // namespace
}  // namespace sangam
