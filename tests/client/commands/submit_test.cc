#include "client/commands/submit.h"

#include <grpcpp/support/status.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class SubmitTest : public CommandFixture {
 protected:
  SubmitTest() : file_(WriteFile("job.textproto", "name: \"mlp\" epochs: 3")) {
    environment_.coordinator = coordinator_.address();
  }

  FakeCoordinator coordinator_;
  const std::string file_;
};

v1::JobEvent Ended(v1::JobState state) {
  v1::JobEvent event;
  event.set_revision(1);
  event.mutable_state()->set_state(state);
  return event;
}

TEST_F(SubmitTest, QueuesTheJobWithItsChanges) {
  EXPECT_EQ(Run({"submit", file_, "--set", "epochs=1"}), 0) << err();
  EXPECT_EQ(out(), "job 1 (mlp) is queued\n");
  ASSERT_EQ(coordinator_.submitted().size(), 1u);
  EXPECT_EQ(coordinator_.submitted()[0].spec().epochs(), 1u);
  EXPECT_EQ(coordinator_.submitted()[0].request_id().size(), 32u);
  EXPECT_EQ(Run({"submit", file_, "--request_id=mine"}), 0);
  EXPECT_EQ(coordinator_.submitted()[1].request_id(), "mine");
}

TEST_F(SubmitTest, JsonIsTheJob) {
  EXPECT_EQ(Run({"submit", file_, "--output=json"}), 0);
  const auto job = nlohmann::json::parse(out());
  EXPECT_EQ(job["id"], "1");
  EXPECT_EQ(job["spec"]["name"], "mlp");
  EXPECT_EQ(job["state"], "QUEUED");
  EXPECT_EQ(err(), "");
}

TEST_F(SubmitTest, ValidatesWithoutQueueing) {
  EXPECT_EQ(Run({"submit", file_, "--validate_only"}), 0);
  EXPECT_EQ(out(), file_ + " is a valid job\n");
  EXPECT_TRUE(coordinator_.submitted()[0].validate_only());
  EXPECT_FALSE(coordinator_.submitted()[0].await_daemons());
  EXPECT_EQ(Run({"submit", file_, "--validate_only", "--wait"}), 2);
  EXPECT_EQ(Run({"submit", file_, "--wait_for_daemons"}), 0);
  EXPECT_TRUE(coordinator_.submitted()[1].await_daemons());
}

TEST_F(SubmitTest, EveryFaultThatTheCoordinatorFindsIsShown) {
  coordinator_.RefuseJobs(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                       "batch.size: found 0\nmodel.block: found none"));
  EXPECT_EQ(Run({"submit", file_}), 2);
  EXPECT_EQ(err(), "sangam submit: batch.size: found 0\nmodel.block: found none\n");
  EXPECT_EQ(out(), "");
}

TEST_F(SubmitTest, FaultyFilesAreFailuresAndFaultyFlagsUsageErrors) {
  EXPECT_EQ(Run({"submit", directory_ + "/none"}), 5);
  EXPECT_THAT(err(), HasSubstr("/none"));
  const std::string bad = WriteFile("bad.textproto", "epochs: 1\nepoch: 2");
  EXPECT_EQ(Run({"submit", bad}), 2);
  EXPECT_THAT(err(), HasSubstr("bad.textproto:2:6: "));
  EXPECT_EQ(Run({"submit", file_, "--set=epochs=x"}), 2);
  EXPECT_THAT(err(), HasSubstr("--set epochs=x: epochs: found 'x'"));
  EXPECT_TRUE(coordinator_.submitted().empty());
}

TEST_F(SubmitTest, WaitsForTheEndOfTheJob) {
  coordinator_.AddWatch({Ended(v1::SUCCEEDED)}, FakeCoordinator::End::kOk);
  EXPECT_EQ(Run({"submit", file_, "--wait"}), 0);
  EXPECT_EQ(out(), "job mlp SUCCEEDED steps=0\n");
  EXPECT_EQ(err(), "job 1 (mlp) is queued\n     0s  SUCCEEDED\n");
}

TEST_F(SubmitTest, AFailedJobIsAFailure) {
  coordinator_.AddWatch({Ended(v1::FAILED)}, FakeCoordinator::End::kOk);
  EXPECT_EQ(Run({"submit", file_, "--wait", "--output=json"}), 3);
  EXPECT_EQ(nlohmann::json::parse(out())["state"], "FAILED");
}

}  // namespace
}  // namespace sangam
