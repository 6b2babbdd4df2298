#include "client/commands/cancel.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

TEST_F(CommandFixture, CancelTellsTheReasonAndShowsTheState) {
  FakeCoordinator coordinator;
  environment_.coordinator = coordinator.address();
  v1::Job job;
  job.set_id(7);
  job.mutable_spec()->set_name("mlp");
  coordinator.AddJob(job);
  EXPECT_EQ(Run({"cancel", "7", "--reason=too slow"}), 0) << err();
  EXPECT_EQ(out(), "job 7 (mlp) is CANCELLED\n");
  EXPECT_EQ(coordinator.cancelled()[0].reason(), "too slow");
  EXPECT_EQ(Run({"cancel", "mlp", "--output=json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["state"], "CANCELLED");
  EXPECT_EQ(coordinator.cancelled()[1].reason(), "cancelled by the user");
  EXPECT_EQ(Run({"cancel", "8"}), 5);
  EXPECT_EQ(err(), "sangam cancel: no such job\n");
}

}  // namespace
}  // namespace sangam
