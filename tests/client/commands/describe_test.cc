#include "client/commands/describe.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

using ::testing::StartsWith;

TEST_F(CommandFixture, DescribeFindsJobsByNumberAndName) {
  FakeCoordinator coordinator;
  environment_.coordinator = coordinator.address();
  v1::Job job;
  job.set_id(7);
  job.mutable_spec()->set_name("mlp");
  job.set_state(v1::RUNNING);
  coordinator.AddJob(job);
  for (const std::string name : {"7", "mlp"}) {
    EXPECT_EQ(Run({"describe", name}), 0) << err();
    EXPECT_THAT(out(), StartsWith("job         7\nname        mlp\nstate       RUNNING"));
  }
  EXPECT_EQ(Run({"describe", "7", "--output=json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["spec"]["name"], "mlp");
  EXPECT_EQ(Run({"describe", "8"}), 5);
  EXPECT_EQ(err(), "sangam describe: no job 8\n");
}

}  // namespace
}  // namespace sangam
