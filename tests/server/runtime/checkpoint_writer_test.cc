#include "server/runtime/checkpoint_writer.h"

#include <cstdint>
#include <filesystem>
#include <future>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/runtime/checkpoint_store.h"
#include "server/runtime/coordinator.h"
#include "server/runtime/parameter_shard.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using testing::Daemon;
using testing::LayoutOf;
using testing::Ready;
using testing::Registration;
using testing::SmallJob;
using testing::Step;

constexpr absl::Duration kLong = absl::Seconds(30);

std::string FreshFolder(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(folder);
  return folder;
}

// A job on one worker and one server, which has done its first step; the worker drains, and the
// server has copied the step at which the job stops. Reading the copy takes as long as a test says.
class CheckpointWriterTest : public ::testing::Test {
 protected:
  CheckpointWriterTest()
      : store_(FreshFolder("writer")),
        coordinator_(Options(), &Clock::Real()),
        writer_(&coordinator_, &store_,
                [this](const std::string&, uint64_t job, uint64_t step, const TakeStatePage& page) {
                  return ReadState(job, step, page);
                }) {
    coordinator_.SetCheckpoints(&store_, [this] { writer_.Wake(); });
    spec_.mutable_checkpoint()->set_every_steps(2);
  }
  // Nothing may wait for the test any more.
  ~CheckpointWriterTest() override {
    if (!released_) Release(absl::OkStatus());
  }

  static Coordinator::Options Options() {
    Coordinator::Options options;
    options.lease = absl::Minutes(1);
    return options;
  }

  void StopTheJob() {
    for (const v1::DaemonIdentity& daemon : {worker_, server_}) {
      ASSERT_TRUE(coordinator_.Register(Registration(daemon)).ok());
    }
    v1::SubmitJobRequest submit;
    *submit.mutable_spec() = spec_;
    const auto job = coordinator_.Submit(submit);
    ASSERT_TRUE(job.ok()) << job.status();
    for (const v1::DaemonIdentity& daemon : {worker_, server_}) Report(daemon, Ready());
    ASSERT_EQ(coordinator_.Get("job")->state(), v1::RUNNING);
    const auto assigned = Heartbeat(false);
    ASSERT_EQ(assigned.assignment_size(), 1);
    EXPECT_FALSE(Heartbeat(true).drained());
    v1::JobReport copied;
    copied.mutable_snapshot()->set_step(1);
    copied.mutable_snapshot()->set_updates(1);
    Report(server_, copied);
    Report(worker_, Step(assigned.assignment(0).plan().worker(0), 0));
    EXPECT_TRUE(Heartbeat(true).drained());
  }

  v1::HeartbeatResponse Heartbeat(bool draining) {
    v1::HeartbeatRequest request;
    *request.mutable_daemon() = worker_;
    request.set_draining(draining);
    const auto response = coordinator_.Heartbeat(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::HeartbeatResponse();
  }

  void Report(const v1::DaemonIdentity& daemon, v1::JobReport report) {
    v1::ReportRequest request;
    *request.mutable_daemon() = daemon;
    request.set_job(1);
    request.set_generation(1);
    *request.add_report() = std::move(report);
    const absl::Status status = coordinator_.Report(request);
    EXPECT_TRUE(status.ok()) << status;
  }

  void Release(const absl::Status& status) {
    released_ = true;
    release_.set_value(status);
  }

  absl::Status ReadState(uint64_t job, uint64_t step, const TakeStatePage& page) {
    reading_.set_value();
    const absl::Status status = release_.get_future().get();
    if (!status.ok()) return status;
    const v1::ModelLayout layout = LayoutOf(spec_);
    for (int s = 0; s < layout.segment_size(); ++s) {
      v1::FrameHeader header;
      header.set_job(job);
      header.set_step(step);
      header.set_segment(static_cast<uint32_t>(s));
      header.set_element_count(layout.segment(s).element_count());
      header.set_encoding(v1::ENCODING_FP32);
      header.set_kind(v1::FRAME_KIND_STATE);
      // Weights and momentum.
      const absl::Status taken = page(header, std::string(8 * header.element_count(), 'x'));
      if (!taken.ok()) return taken;
    }
    return absl::OkStatus();
  }

  // Why the job gave its daemons back.
  std::string GivenBack() {
    std::string reason;
    const v1::Job job = *coordinator_.Get("job");
    for (const v1::StateChange& change : job.history()) {
      if (change.state() == v1::PREEMPTED) reason = change.reason();
    }
    return reason;
  }

  const v1::DaemonIdentity worker_ = Daemon(v1::WORKER, "w-1");
  const v1::DaemonIdentity server_ = Daemon(v1::SERVER, "s-1");
  v1::JobSpec spec_ = SmallJob("job", 1, 1);
  std::promise<void> reading_;
  std::promise<absl::Status> release_;
  bool released_ = false;
  const CheckpointStore store_;
  Coordinator coordinator_;
  CheckpointWriter writer_;
};

// Its worker may be gone already, and what the job has done is nowhere else.
TEST_F(CheckpointWriterTest, WhoEndsInOrderWaitsForTheStepAtWhichAJobStopped) {
  StopTheJob();
  writer_.Start();
  EXPECT_FALSE(writer_.AwaitIdle(absl::Milliseconds(50)));
  reading_.get_future().wait();
  EXPECT_FALSE(writer_.AwaitIdle(absl::Milliseconds(50)));
  EXPECT_EQ(coordinator_.Get("job")->state(), v1::RUNNING);
  Release(absl::OkStatus());
  ASSERT_TRUE(writer_.AwaitIdle(kLong));
  EXPECT_EQ(GivenBack(), "worker w-1 drains; stopped before step 1");
  EXPECT_EQ(coordinator_.Get("job")->checkpoint_size(), 1);
  EXPECT_TRUE(store_.Verify("1/1").ok());
}

TEST_F(CheckpointWriterTest, WhatCannotBeReadIsSaidAndAwaitedNoLonger) {
  StopTheJob();
  writer_.Start();
  Release(absl::UnavailableError("server s-1: gone"));
  ASSERT_TRUE(writer_.AwaitIdle(kLong));
  EXPECT_EQ(GivenBack(),
            "worker w-1 drains; the step could not be written down, so what was done since the "
            "last one is done again");
  EXPECT_TRUE(store_.SummariesOf(1).empty());
}

}  // namespace
}  // namespace sangam
