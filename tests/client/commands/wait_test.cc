#include "client/commands/wait.h"

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class WaitTest : public CommandFixture {
 protected:
  WaitTest() {
    environment_.coordinator = coordinator_.address();
    job_.set_id(7);
    job_.mutable_spec()->set_name("mlp");
    job_.set_state(v1::QUEUED);
  }

  static v1::JobEvent State(uint64_t revision, v1::JobState state) {
    v1::JobEvent event;
    event.set_revision(revision);
    event.mutable_state()->set_state(state);
    return event;
  }
  // Adds the job; a watch finds it in that state at last.
  void AddJob(v1::JobState last, FakeCoordinator::End end = FakeCoordinator::End::kOk) {
    coordinator_.AddJob(job_);
    coordinator_.AddWatch({State(1, v1::RUNNING), State(2, last)}, end);
  }

  FakeCoordinator coordinator_;
  v1::Job job_;
};

TEST_F(WaitTest, TheExitCodeTellsHowTheJobEnded) {
  AddJob(v1::SUCCEEDED);
  EXPECT_EQ(Run({"wait", "mlp"}), 0) << err();
  EXPECT_EQ(out(), "job mlp SUCCEEDED steps=0\n");
  for (const auto& [state, code] : {std::pair(v1::FAILED, 3), std::pair(v1::CANCELLED, 4)}) {
    job_.set_id(job_.id() + 1);
    job_.set_state(state);
    coordinator_.AddJob(job_);
    EXPECT_EQ(Run({"wait", "mlp"}), code);
  }
  EXPECT_EQ(Run({"wait", "99"}), 5);
}

TEST_F(WaitTest, EndsWhenTheStateIsReached) {
  AddJob(v1::RUNNING, FakeCoordinator::End::kStayOpen);
  EXPECT_EQ(Run({"wait", "7", "--for=RUNNING", "--timeout=20s"}), 0) << err();
  EXPECT_EQ(out(), "job 7 (mlp) is RUNNING\n");
}

TEST_F(WaitTest, AStateThatWasLeftCounts) {
  job_.add_history()->set_state(v1::RUNNING);
  job_.set_state(v1::FAILED);
  coordinator_.AddJob(job_);
  EXPECT_EQ(Run({"wait", "7", "--for=RUNNING"}), 0) << err();
  EXPECT_EQ(Run({"wait", "7", "--for=SUCCEEDED"}), 3);
}

TEST_F(WaitTest, AStateThatIsNeverReachedIsAFailure) {
  AddJob(v1::SUCCEEDED);
  EXPECT_EQ(Run({"wait", "7", "--for=CANCELLED"}), 1);
  EXPECT_EQ(Run({"wait", "7", "--for=nothing"}), 2);
}

TEST_F(WaitTest, TheTimeoutIsKept) {
  AddJob(v1::RUNNING, FakeCoordinator::End::kStayOpen);
  EXPECT_EQ(Run({"wait", "7", "--timeout=200ms"}), 9);
  EXPECT_EQ(err(), "sangam wait: 7 has not ended within 0.2s (--timeout)\n");
}

TEST_F(WaitTest, SurvivesOutages) {
  coordinator_.AddJob(job_);
  coordinator_.AddWatch({State(1, v1::RUNNING)}, FakeCoordinator::End::kUnavailable);
  coordinator_.AddWatch({State(2, v1::SUCCEEDED)}, FakeCoordinator::End::kOk);
  EXPECT_EQ(Run({"wait", "7", "--timeout=20s"}), 0) << err();
  EXPECT_THAT(err(), HasSubstr("trying again (scripted)"));
  EXPECT_EQ(coordinator_.watched()[1].after_revision(), 1u);
}

TEST_F(WaitTest, ACoordinatorThatStaysAwayIsToldFromAJobThatTakesLong) {
  coordinator_.AddJob(job_);
  coordinator_.AddWatch({}, FakeCoordinator::End::kUnavailable);
  environment_.coordinator = "127.0.0.1:1";
  EXPECT_EQ(Run({"wait", "7", "--timeout=200ms"}), 7);
}

}  // namespace
}  // namespace sangam
