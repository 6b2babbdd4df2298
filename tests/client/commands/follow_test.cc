#include "client/commands/follow.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/job_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands/command_fixture.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

// A client whose only job has ended or not; a watch runs the test's script.
class FakeClient : public JobClient {
 public:
  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest&) override { return job; }
  absl::StatusOr<v1::Job> Get(const std::string&) override { return job; }
  absl::StatusOr<v1::Job> Cancel(const std::string&, const std::string&) override { return job; }
  absl::Status Delete(const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<v1::ListJobsResponse> List(uint64_t, const std::vector<v1::JobState>&) override {
    return v1::ListJobsResponse();
  }
  absl::StatusOr<v1::Cluster> GetCluster() override { return v1::Cluster(); }
  absl::StatusOr<v1::DrainDaemonResponse> DrainDaemon(const v1::DrainDaemonRequest&) override {
    return v1::DrainDaemonResponse();
  }
  absl::StatusOr<v1::PlanReport> Plan(const v1::JobSpec&) override { return v1::PlanReport(); }
  absl::StatusOr<v1::JobTrace> Trace(const std::string&) override { return v1::JobTrace(); }
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const std::string&) override {
    return v1::ListCheckpointsResponse();
  }
  absl::StatusOr<v1::Checkpoint> VerifyCheckpoint(const std::string&) override {
    return v1::Checkpoint();
  }
  absl::StatusOr<v1::Checkpoint> GetCheckpoint(const std::string&) override {
    return v1::Checkpoint();
  }
  absl::Status Watch(uint64_t, uint64_t, WatchHandler* handler) override { return script(handler); }
  absl::Status Logs(const v1::StreamLogsRequest&, LogHandler*) override { return absl::OkStatus(); }

  v1::Job job;
  std::function<absl::Status(WatchHandler*)> script = [](WatchHandler*) {
    return absl::OkStatus();
  };
};

class FollowTest : public CommandFixture {
 protected:
  FollowTest() { client_.job.set_state(v1::SUCCEEDED); }

  static v1::JobEvent Message(const std::string& text) {
    v1::JobEvent event;
    event.set_message(text);
    return event;
  }

  FakeClient client_;
  FollowOptions options_;
};

TEST_F(FollowTest, ReturnsTheEndedJob) {
  client_.job.set_reason("done");
  const auto job = FollowJob(client_.job, options_, environment_, &client_);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->reason(), "done");
  EXPECT_EQ(ExitCodeOf(*job), ExitCode::kSuccess);
  client_.job.set_state(v1::CANCELLED);
  EXPECT_EQ(ExitCodeOf(*FollowJob(client_.job, options_, environment_, &client_)),
            ExitCode::kJobCancelled);
}

TEST_F(FollowTest, AJobThatGoesOnIsAnError) {
  client_.job.set_state(v1::RUNNING);
  const absl::Status status = FollowJob(client_.job, options_, environment_, &client_).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("which is still RUNNING"));
}

TEST_F(FollowTest, ErrorsOfTheFunctionsEndTheFollowing) {
  client_.script = [](WatchHandler* handler) { return handler->OnEvent(Message("x")); };
  options_.on_event = [](const v1::JobEvent&) { return absl::DataLossError("disk full"); };
  EXPECT_EQ(FollowJob(client_.job, options_, environment_, &client_).status(),
            absl::DataLossError("disk full"));
  client_.script = [](WatchHandler* handler) { return handler->OnIdle(); };
  options_.on_idle = [] { return absl::AbortedError("stalled"); };
  EXPECT_EQ(FollowJob(client_.job, options_, environment_, &client_).status(),
            absl::AbortedError("stalled"));
}

TEST_F(FollowTest, ProgressGoesWhereItIsAskedFor) {
  client_.script = [](WatchHandler* handler) { return handler->OnEvent(Message("x")); };
  EXPECT_TRUE(FollowJob(client_.job, options_, environment_, &client_).ok());
  EXPECT_EQ(out(), "     0s  x\n");
  EXPECT_EQ(err(), "");
  console_.out.clear();
  options_.progress_on_error_stream = true;
  EXPECT_TRUE(FollowJob(client_.job, options_, environment_, &client_).ok());
  EXPECT_EQ(out(), "");
  EXPECT_EQ(err(), "     0s  x\n");
}

TEST_F(FollowTest, LossesOverTokensHaveTheirUnit) {
  client_.job.mutable_spec()->mutable_loss()->mutable_token_cross_entropy();
  client_.script = [](WatchHandler* handler) {
    v1::JobEvent event;
    event.mutable_step()->set_loss(2.5);
    return handler->OnEvent(event);
  };
  EXPECT_TRUE(FollowJob(client_.job, options_, environment_, &client_).ok());
  EXPECT_THAT(out(), HasSubstr("step 1  loss 2.5000 nats/token  "));
}

TEST_F(FollowTest, ALossIsToldOnceUntilAnEventComes) {
  client_.script = [](WatchHandler* handler) {
    handler->OnLost(absl::UnavailableError("a"));
    handler->OnLost(absl::UnavailableError("b"));
    const absl::Status status = handler->OnEvent(Message("back"));
    handler->OnLost(absl::UnavailableError("c"));
    return status;
  };
  EXPECT_TRUE(FollowJob(client_.job, options_, environment_, &client_).ok());
  EXPECT_EQ(out(),
            "     0s  connection to the coordinator lost, trying again (a)\n"
            "     0s  back\n"
            "     0s  connection to the coordinator lost, trying again (c)\n");
}

TEST_F(FollowTest, JsonKeepsNoticesOutOfTheOutput) {
  client_.script = [](WatchHandler* handler) {
    handler->OnLost(absl::UnavailableError("a"));
    return handler->OnIdle();
  };
  options_.json = true;
  console_.terminal = true;
  EXPECT_TRUE(FollowJob(client_.job, options_, environment_, &client_).ok());
  EXPECT_EQ(out(), "");
  EXPECT_THAT(err(), HasSubstr("trying again (a)\n"));
}

TEST_F(FollowTest, ABarIsTakenAwayAtTheEnd) {
  console_.terminal = true;
  client_.script = [](WatchHandler* handler) {
    const absl::Status status = handler->OnEvent(Message("x"));
    return status.ok() ? handler->OnIdle() : status;
  };
  EXPECT_TRUE(FollowJob(client_.job, options_, environment_, &client_).ok());
  EXPECT_THAT(out(), ::testing::EndsWith("\r\x1b[K"));
}

}  // namespace
}  // namespace sangam
