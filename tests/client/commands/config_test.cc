#include "client/commands/config.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands/command_fixture.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class ConfigTest : public CommandFixture {};

TEST_F(ConfigTest, ShowsEachValueAndItsOrigin) {
  const std::string file = WriteFile("a.conf", "# mine\ncoordinator = a:1\noutput = json\n");
  environment_.variables = {"SANGAM_OUTPUT=table"};
  EXPECT_EQ(Run({"config", "--config=" + file, "--timeout=3s"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("coordinator = a:1  # " + file + ":2\n"));
  EXPECT_THAT(out(), HasSubstr("timeout = 3s  # flag --timeout\n"));
  EXPECT_THAT(out(), HasSubstr("output = table  # environment variable SANGAM_OUTPUT\n"));
}

TEST_F(ConfigTest, WhatItPrintsIsAFile) {
  environment_.variables = {"SANGAM_COORDINATOR=b:2"};
  ASSERT_EQ(Run({"config"}), 0);
  environment_.variables = {};
  const std::string file = WriteFile("b.conf", out());
  ASSERT_EQ(Run({"config", "--config", file}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("coordinator = b:2  # " + file));
}

}  // namespace
}  // namespace sangam
