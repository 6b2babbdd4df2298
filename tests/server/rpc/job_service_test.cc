#include "server/rpc/job_service.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/refusal_counts.h"
#include "common/rpc/channel.h"
#include "common/rpc/request_guard.h"
#include "common/rpc/server_runner.h"
#include "gtest/gtest.h"
#include "proto/job_service.grpc.pb.h"
#include "server/runtime/coordinator.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using Stub = v1::JobService::Stub;

class JobServiceTest : public ::testing::Test {
 protected:
  explicit JobServiceTest(const CallLimits& limits = {})
      : coordinator_({}, &Clock::Real()), service_(&coordinator_, limits) {
    ServerRunner::Options runner;
    runner.listen = "127.0.0.1:0";
    auto server = ServerRunner::Start(
        runner, [this](grpc::ServerBuilder* builder) { builder->RegisterService(&service_); });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::JobService::NewStub(*MakeControlChannel(ToString(server_->address())));
  }
  ~JobServiceTest() override {
    coordinator_.Shutdown();
    server_->Shutdown(absl::Seconds(5));
  }

  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    return (*stub_.*method)(&context, request, response);
  }

  uint64_t Submit(const std::string& name) {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = testing::SmallJob(name, 1, 1);
    request.set_await_daemons(true);
    v1::SubmitJobResponse response;
    const grpc::Status status = Call(&Stub::SubmitJob, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job().id();
  }

  // Reads a job's events to the end of the stream.
  grpc::Status Watch(const std::string& job, uint64_t after, std::vector<v1::JobEvent>* events,
                     absl::Duration timeout = absl::Seconds(20)) {
    grpc::ClientContext context;
    SetTimeout(timeout, &context);
    v1::WatchJobRequest request;
    request.set_job(job);
    request.set_after_revision(after);
    const auto stream = stub_->WatchJob(&context, request);
    v1::JobEvent event;
    while (stream->Read(&event)) events->push_back(event);
    return stream->Finish();
  }

  Coordinator coordinator_;
  GrpcJobService service_;
  std::unique_ptr<ServerRunner> server_;
  std::unique_ptr<Stub> stub_;
};

TEST_F(JobServiceTest, SubmitsGetsListsAndCancels) {
  EXPECT_EQ(Submit("first"), 1u);
  EXPECT_EQ(Submit("second"), 2u);
  v1::GetJobRequest get;
  get.set_job("second");
  v1::Job job;
  ASSERT_TRUE(Call(&Stub::GetJob, get, &job).ok());
  EXPECT_EQ(job.id(), 2u);
  EXPECT_EQ(job.state(), v1::QUEUED);

  v1::ListJobsResponse list;
  ASSERT_TRUE(Call(&Stub::ListJobs, v1::ListJobsRequest(), &list).ok());
  ASSERT_EQ(list.job_size(), 2);
  EXPECT_EQ(list.job(0).spec().name(), "second");

  v1::CancelJobRequest cancel;
  cancel.set_job("1");
  cancel.set_reason("enough");
  ASSERT_TRUE(Call(&Stub::CancelJob, cancel, &job).ok());
  EXPECT_EQ(job.state(), v1::CANCELLED);
  EXPECT_EQ(job.reason(), "enough");

  ASSERT_TRUE(coordinator_.Register(testing::Registration(testing::Daemon(v1::SERVER, "s"))).ok());
  v1::Cluster cluster;
  ASSERT_TRUE(Call(&Stub::GetCluster, v1::GetClusterRequest(), &cluster).ok());
  ASSERT_EQ(cluster.daemon_size(), 1);
  EXPECT_EQ(cluster.daemon(0).address(), "s:7070");
}

TEST_F(JobServiceTest, PlansAndTellsWhatWasTraced) {
  const v1::DaemonIdentity worker = testing::Daemon(v1::WORKER, "w");
  const v1::DaemonIdentity server = testing::Daemon(v1::SERVER, "s");
  v1::PlanJobRequest plan;
  *plan.mutable_spec() = testing::SmallJob("job", 1, 1);
  v1::PlanReport report;
  EXPECT_EQ(Call(&Stub::PlanJob, plan, &report).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  for (const v1::DaemonIdentity& daemon : {worker, server}) {
    ASSERT_TRUE(coordinator_.Register(testing::Registration(daemon)).ok());
  }
  ASSERT_TRUE(Call(&Stub::PlanJob, plan, &report).ok());
  EXPECT_TRUE(report.feasible());
  EXPECT_EQ(report.cluster().worker(0).name(), "w");

  const uint64_t job = Submit("job");
  v1::GetTraceRequest get;
  get.set_job("job");
  v1::JobTrace trace;
  EXPECT_EQ(Call(&Stub::GetTrace, get, &trace).error_code(), grpc::StatusCode::NOT_FOUND);
  v1::ReportRequest reports;
  reports.set_job(job);
  reports.set_generation(1);
  *reports.add_report() = testing::Ready();
  for (const v1::DaemonIdentity& daemon : {server, worker}) {
    *reports.mutable_daemon() = daemon;
    ASSERT_TRUE(coordinator_.Report(reports).ok());
  }
  reports.mutable_report(0)->mutable_trace()->set_step(1);
  ASSERT_TRUE(coordinator_.Report(reports).ok());
  ASSERT_TRUE(Call(&Stub::GetTrace, get, &trace).ok());
  EXPECT_EQ(trace.name(), "job");
  EXPECT_EQ(trace.block(1), "output");
  EXPECT_EQ(trace.worker(0).step(0).step(), 1u);
}

TEST_F(JobServiceTest, AllFaultsOfAJobArriveAtTheClient) {
  v1::SubmitJobRequest request;
  v1::SubmitJobResponse response;
  const grpc::Status status = Call(&Stub::SubmitJob, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  for (const char* field :
       {"name: ", "model.block: ", "loss: ", "data: ", "optimizer: ", "batch.size: ", "epochs: "}) {
    EXPECT_NE(status.error_message().find(field), std::string::npos) << status.error_message();
  }
}

TEST_F(JobServiceTest, AVeryLongListOfFaultsKeepsItsCode) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = testing::SmallJob("job", 1, 1);
  for (int i = 0; i < 1000; ++i) request.mutable_spec()->mutable_model()->add_block();
  v1::SubmitJobResponse response;
  const grpc::Status status = Call(&Stub::SubmitJob, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_NE(status.error_message().find("bytes more)"), std::string::npos);
}

TEST_F(JobServiceTest, AJobThatIsNotThereIsNotFound) {
  v1::Job job;
  v1::GetJobRequest get;
  get.set_job("none");
  EXPECT_EQ(Call(&Stub::GetJob, get, &job).error_code(), grpc::StatusCode::NOT_FOUND);
  v1::CancelJobRequest cancel;
  cancel.set_job("9");
  EXPECT_EQ(Call(&Stub::CancelJob, cancel, &job).error_code(), grpc::StatusCode::NOT_FOUND);
  std::vector<v1::JobEvent> events;
  EXPECT_EQ(Watch("none", 0, &events).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(JobServiceTest, WatchStreamsWhatHappensAndEndsWithTheJob) {
  const uint64_t job = Submit("job");
  std::vector<v1::JobEvent> events;
  auto watch = std::async(std::launch::async, [&] { return Watch("job", 0, &events); });
  v1::CancelJobRequest cancel;
  cancel.set_job(absl::StrCat(job));
  ASSERT_TRUE(coordinator_.Cancel(cancel).ok());
  const grpc::Status status = watch.get();
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].state().state(), v1::QUEUED);
  EXPECT_NE(events[1].message(), "");
  EXPECT_EQ(events[2].state().state(), v1::CANCELLED);
  // Again, from the middle.
  events.clear();
  EXPECT_TRUE(Watch("1", 2, &events).ok());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].revision(), 3u);
}

TEST_F(JobServiceTest, WatchEndsWhenTheClientHasGone) {
  Submit("job");
  std::vector<v1::JobEvent> events;
  EXPECT_EQ(Watch("job", 0, &events, absl::Milliseconds(300)).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  // The handler sees it too: a shutdown with time to spare does not have to cancel it.
  const absl::Duration begin = Clock::Real().Steady();
  server_->Shutdown(absl::Seconds(20));
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(15));
}

TEST_F(JobServiceTest, WatchEndsWhenTheCoordinatorStops) {
  Submit("job");
  std::vector<v1::JobEvent> events;
  auto watch = std::async(std::launch::async, [&] { return Watch("job", 0, &events); });
  coordinator_.Shutdown();
  EXPECT_EQ(watch.get().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(JobServiceTest, StreamsTheLog) {
  Submit("job");
  v1::CancelJobRequest cancel;
  cancel.set_job("job");
  v1::Job job;
  ASSERT_TRUE(Call(&Stub::CancelJob, cancel, &job).ok());
  v1::StreamLogsRequest request;
  request.set_job("job");
  for (const bool follow : {false, true}) {
    request.set_follow(follow);
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    const auto stream = stub_->StreamLogs(&context, request);
    v1::LogLine line;
    ASSERT_TRUE(stream->Read(&line));
    EXPECT_EQ(line.daemon(), "coordinator");
    EXPECT_NE(line.text().find("state=CANCELLED"), std::string::npos) << line.text();
    EXPECT_FALSE(stream->Read(&line));
    EXPECT_TRUE(stream->Finish().ok());
  }
  request.set_job("none");
  grpc::ClientContext context;
  v1::LogLine line;
  const auto stream = stub_->StreamLogs(&context, request);
  EXPECT_FALSE(stream->Read(&line));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

class CrowdedJobServiceTest : public JobServiceTest {
 protected:
  CrowdedJobServiceTest() : JobServiceTest(Limits(&counts_)) {}

  static CallLimits Limits(RefusalCounts* counts) {
    CallLimits limits;
    limits.counts = counts;
    limits.max_watches_of_one = 2;
    return limits;
  }

  RefusalCounts counts_;
};

TEST_F(CrowdedJobServiceTest, WhoFollowsTooMuchIsRefusedUntilOneEnds) {
  Submit("job");
  v1::WatchJobRequest watch;
  watch.set_job("job");
  v1::StreamLogsRequest logs;
  logs.set_job("job");
  logs.set_follow(true);
  grpc::ClientContext one;
  grpc::ClientContext two;
  SetTimeout(absl::Seconds(60), &one);
  SetTimeout(absl::Seconds(60), &two);
  const auto first = stub_->WatchJob(&one, watch);
  const auto second = stub_->WatchJob(&two, watch);
  v1::JobEvent event;
  ASSERT_TRUE(first->Read(&event));
  ASSERT_TRUE(second->Read(&event));
  std::vector<v1::JobEvent> events;
  EXPECT_EQ(Watch("job", 0, &events).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  {
    grpc::ClientContext context;
    SetTimeout(absl::Seconds(20), &context);
    const auto stream = stub_->StreamLogs(&context, logs);
    v1::LogLine line;
    EXPECT_FALSE(stream->Read(&line));
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(status.error_message(),
              "quota: as many calls follow jobs as may, 2 of one caller and 256 of all; end one or "
              "try later");
  }
  EXPECT_EQ(counts_.Get(Refusal::kCalls), 2u);
  // Other calls are not.
  v1::GetJobRequest get;
  get.set_job("job");
  v1::Job job;
  EXPECT_TRUE(Call(&Stub::GetJob, get, &job).ok());
  one.TryCancel();
  first->Finish();
  grpc::Status status;
  for (int i = 0; i < 200; ++i) {
    status = Watch("job", 0, &events, absl::Milliseconds(500));
    if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) break;
    absl::SleepFor(absl::Milliseconds(50));  // until the server sees that one has gone
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << "it was let in";
  two.TryCancel();
  second->Finish();
}

TEST_F(JobServiceTest, DeletesWhatHasEnded) {
  Submit("job");
  v1::DeleteJobRequest request;
  request.set_job("job");
  v1::DeleteJobResponse response;
  EXPECT_EQ(Call(&Stub::DeleteJob, request, &response).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  v1::CancelJobRequest cancel;
  cancel.set_job("job");
  v1::Job job;
  ASSERT_TRUE(Call(&Stub::CancelJob, cancel, &job).ok());
  EXPECT_TRUE(Call(&Stub::DeleteJob, request, &response).ok());
  EXPECT_EQ(Call(&Stub::DeleteJob, request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace sangam
