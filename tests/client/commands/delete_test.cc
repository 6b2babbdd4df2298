#include "client/commands/delete.h"

#include "gtest/gtest.h"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

TEST_F(CommandFixture, DeleteForgetsAJob) {
  FakeCoordinator coordinator;
  environment_.coordinator = coordinator.address();
  v1::Job job;
  job.set_id(7);
  coordinator.AddJob(job);
  EXPECT_EQ(Run({"delete", "7"}), 0) << err();
  EXPECT_EQ(out(), "job 7 is deleted\n");
  EXPECT_EQ(Run({"delete", "7"}), 5);
  EXPECT_EQ(err(), "sangam delete: no such job\n");
}

}  // namespace
}  // namespace sangam
