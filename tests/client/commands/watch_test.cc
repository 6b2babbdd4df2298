#include "client/commands/watch.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class WatchTest : public CommandFixture {
 protected:
  WatchTest() {
    environment_.coordinator = coordinator_.address();
    v1::Job job;
    job.set_id(7);
    job.mutable_spec()->set_name("mlp");
    coordinator_.AddJob(job);
  }

  static v1::JobEvent State(uint64_t revision, v1::JobState state) {
    v1::JobEvent event;
    event.set_revision(revision);
    event.mutable_time()->set_seconds(1'700'000'000 + static_cast<int64_t>(revision));
    event.set_steps_total(10);
    event.mutable_state()->set_state(state);
    return event;
  }
  static v1::JobEvent Step(uint64_t revision) {
    v1::JobEvent event = State(revision, v1::RUNNING);
    event.mutable_step()->set_step(4);
    event.mutable_step()->set_loss(0.5);
    event.mutable_step()->set_samples_per_second(1000);
    return event;
  }

  FakeCoordinator coordinator_;
};

TEST_F(WatchTest, ShowsLinesAndReturnsTheOutcome) {
  coordinator_.AddWatch({State(1, v1::RUNNING), Step(2), State(3, v1::SUCCEEDED)},
                        FakeCoordinator::End::kOk);
  EXPECT_EQ(Run({"watch", "mlp"}), 0) << err();
  EXPECT_EQ(out(),
            "     0s  RUNNING: 10 steps\n"
            "   1.0s  step 5/10 (50%)  loss 0.5000  1000 samples/s  1.0s left\n"
            "   2.0s  SUCCEEDED\n");
  EXPECT_EQ(err(), "");
  // By number from the second call on: a newer job may take the name.
  EXPECT_EQ(coordinator_.watched()[0].job(), "7");
}

TEST_F(WatchTest, ATerminalGetsABar) {
  console_.terminal = true;
  coordinator_.AddWatch({State(1, v1::RUNNING), Step(2)}, FakeCoordinator::End::kUnavailable);
  coordinator_.AddWatch({State(3, v1::CANCELLED)}, FakeCoordinator::End::kOk);
  EXPECT_EQ(Run({"watch", "7"}), 4);
  EXPECT_THAT(out(), HasSubstr("\r\x1b[K[====="));
  EXPECT_THAT(out(), HasSubstr("connection to the coordinator lost, trying again (scripted)\n"));
  EXPECT_THAT(out(), ::testing::EndsWith("   2.0s  CANCELLED\n"));
}

TEST_F(WatchTest, JsonIsAnEventALine) {
  coordinator_.AddWatch({State(1, v1::RUNNING), Step(2), State(3, v1::FAILED)},
                        FakeCoordinator::End::kOk);
  EXPECT_EQ(Run({"watch", "7", "--output=json"}), 3);
  const std::vector<std::string> lines = absl::StrSplit(out(), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(nlohmann::json::parse(lines[0])["state"]["state"], "RUNNING");
  EXPECT_EQ(nlohmann::json::parse(lines[1])["step"]["loss"], 0.5);
  EXPECT_EQ(nlohmann::json::parse(lines[2])["revision"], "3");
}

TEST_F(WatchTest, AnInterruptLeavesTheJobAlone) {
  coordinator_.AddWatch({State(1, v1::RUNNING)}, FakeCoordinator::End::kStayOpen);
  int asked = 0;
  environment_.interrupts = [&asked] { return ++asked > 5 ? 1 : 0; };
  EXPECT_EQ(Run({"watch", "7"}), 130);
  EXPECT_EQ(err(), "sangam watch: interrupted\n");
  EXPECT_TRUE(coordinator_.cancelled().empty());
}

TEST_F(WatchTest, AnUnknownJobIsAFailure) {
  EXPECT_EQ(Run({"watch", "8"}), 5);
  EXPECT_EQ(err(), "sangam watch: no job 8\n");
}

}  // namespace
}  // namespace sangam
