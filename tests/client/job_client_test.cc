#include "client/job_client.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/refusal_counts.h"
#include "common/base/status_macros.h"
#include "common/rpc/stalled_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const grpc::Status kUnavailable(grpc::StatusCode::UNAVAILABLE, "not now");

JobClient::Options FastOptions(const std::string& coordinator) {
  JobClient::Options options;
  options.coordinator = coordinator;
  options.backoff.initial = absl::Milliseconds(1);
  options.backoff.maximum = absl::Milliseconds(20);
  return options;
}

std::unique_ptr<JobClient> Connect(JobClient::Options options) {
  auto client = JobClient::Create(std::move(options));
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

v1::Job Job(uint64_t id, const std::string& name) {
  v1::Job job;
  job.set_id(id);
  job.mutable_spec()->set_name(name);
  return job;
}

v1::JobEvent Event(uint64_t revision, const std::string& message) {
  v1::JobEvent event;
  event.set_revision(revision);
  event.set_message(message);
  return event;
}

v1::JobEvent Ended(uint64_t revision) {
  v1::JobEvent event;
  event.set_revision(revision);
  event.mutable_state()->set_state(v1::SUCCEEDED);
  return event;
}

// Keeps the revisions that came.
class Recorder : public WatchHandler {
 public:
  absl::Status OnEvent(const v1::JobEvent& event) override {
    revisions.push_back(event.revision());
    return event.revision() == stop_at ? absl::AbortedError("stop") : absl::OkStatus();
  }
  absl::Status OnIdle() override {
    ++idle;
    return idle == stop_at_idle ? absl::AbortedError("idle stop") : absl::OkStatus();
  }
  void OnLost(const absl::Status& /*why*/) override { ++lost; }

  std::vector<uint64_t> revisions;
  uint64_t stop_at = 0;
  int idle = 0;
  int stop_at_idle = 0;
  int lost = 0;
};

TEST(JobClientTest, CallsTheService) {
  FakeCoordinator coordinator;
  coordinator.AddJob(Job(1, "a"));
  v1::Cluster cluster;
  cluster.add_daemon()->set_name("worker-0");
  coordinator.SetCluster(cluster);
  const auto client = Connect(FastOptions(coordinator.address()));

  EXPECT_EQ(client->Get("a")->id(), 1u);
  v1::JobSpec spec;
  spec.set_name("b");
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id("request");
  EXPECT_EQ(client->Submit(request)->id(), 2u);
  request.set_validate_only(true);
  EXPECT_EQ(client->Submit(request)->id(), 0u);
  EXPECT_EQ(client->Cancel("2", "why")->state(), v1::CANCELLED);
  EXPECT_EQ(client->GetCluster()->daemon(0).name(), "worker-0");
  v1::PlanReport report;
  report.set_explanation("because");
  coordinator.SetPlan(report);
  EXPECT_EQ(client->Plan(spec)->explanation(), "because");
  v1::JobTrace trace;
  trace.set_job(2);
  coordinator.SetTrace(trace);
  EXPECT_EQ(client->Trace("b")->job(), 2u);
  ASSERT_EQ(coordinator.submitted().size(), 2u);
  EXPECT_EQ(coordinator.submitted()[0].request_id(), "request");
  EXPECT_TRUE(coordinator.submitted()[1].validate_only());
  EXPECT_EQ(coordinator.planned()[0].spec().name(), "b");
  EXPECT_EQ(coordinator.cancelled()[0].reason(), "why");
  EXPECT_TRUE(client->Delete("2").ok());
  EXPECT_EQ(client->Delete("2").code(), absl::StatusCode::kNotFound);
}

// Keeps the texts that came.
class LogRecorder : public LogHandler {
 public:
  absl::Status OnEvent(const v1::LogLine& line) override {
    texts.push_back(line.text());
    return absl::OkStatus();
  }
  void OnLost(const absl::Status& /*why*/) override { ++lost; }
  void OnBack() override { ++back; }

  std::vector<std::string> texts;
  int lost = 0;
  int back = 0;
};

TEST(JobClientTest, LogsGoOnWhereTheyWere) {
  FakeCoordinator coordinator;
  coordinator.AddJob(Job(1, "a"));
  std::vector<v1::LogLine> lines(3);
  for (uint64_t i = 0; i < 3; ++i) {
    lines[i].set_revision(i + 5);
    lines[i].set_text(absl::StrCat("line ", i));
  }
  coordinator.SetLog(lines);
  const auto client = Connect(FastOptions(coordinator.address()));
  v1::StreamLogsRequest request;
  request.set_job("1");
  request.set_follow(true);
  request.set_after_revision(5);
  LogRecorder recorder;
  EXPECT_TRUE(client->Logs(request, &recorder).ok());
  EXPECT_EQ(recorder.texts, (std::vector<std::string>{"line 1", "line 2"}));
  EXPECT_EQ(recorder.lost, 2);
  EXPECT_EQ(recorder.back, 2);
}

TEST(JobClientTest, ErrorsOfTheServiceAreFinal) {
  FakeCoordinator coordinator;
  const auto client = Connect(FastOptions(coordinator.address()));
  const absl::Status status = client->Get("nothing").status();
  EXPECT_EQ(status, absl::NotFoundError("no job nothing"));
  EXPECT_EQ(coordinator.calls(), 1);
}

TEST(JobClientTest, RepeatsWithTheSameRequestIdWhileUnavailable) {
  FakeCoordinator coordinator;
  coordinator.FailNext(3, kUnavailable);
  const auto client = Connect(FastOptions(coordinator.address()));
  v1::SubmitJobRequest once;
  once.set_request_id("same");
  EXPECT_EQ(client->Submit(once)->id(), 1u);
  const auto submitted = coordinator.submitted();
  ASSERT_EQ(submitted.size(), 4u);
  for (const v1::SubmitJobRequest& request : submitted) EXPECT_EQ(request.request_id(), "same");
}

TEST(JobClientTest, GivesUpAfterTheTimeoutAndSaysWhatItTried) {
  // A port that was free a moment ago.
  const std::string address = FakeCoordinator().address();
  JobClient::Options options = FastOptions(address);
  options.timeout = absl::Milliseconds(300);
  const auto client = Connect(std::move(options));
  const absl::Time start = absl::Now();
  const absl::Status status = client->Get("1").status();
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(absl::StrCat("coordinator ", address, " cannot be reached: ")),
                    HasSubstr(" tries in 0."), HasSubstr("the last one: ")));
}

TEST(JobClientTest, ACoordinatorThatDoesNotAnswerIsGivenUp) {
  FakeCoordinator coordinator;
  coordinator.FailNext(1000, grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "slow"));
  JobClient::Options options = FastOptions(coordinator.address());
  options.timeout = absl::Milliseconds(200);
  const absl::Status status = Connect(std::move(options))->Get("1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GT(coordinator.calls(), 1);
}

TEST(JobClientTest, RefusesMalformedAddresses) {
  for (const std::string address : {"", "localhost", "localhost:", "localhost:x", ":7070"}) {
    const absl::Status status = JobClient::Create(FastOptions(address)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

TEST(JobClientTest, AnInterruptEndsACallAndItsRepetitions) {
  const std::string address = FakeCoordinator().address();
  JobClient::Options options = FastOptions(address);
  options.timeout = absl::Hours(1);
  int asked = 0;
  options.check = [&asked] {
    return ++asked > 3 ? absl::CancelledError("Ctrl-C") : absl::OkStatus();
  };
  EXPECT_EQ(Connect(std::move(options))->Get("1").status(), absl::CancelledError("Ctrl-C"));
}

TEST(JobClientTest, ListsPageByPage) {
  FakeCoordinator coordinator;
  for (uint64_t id = 1; id <= 2500; ++id) coordinator.AddJob(Job(id, "j"));
  const auto client = Connect(FastOptions(coordinator.address()));
  const auto all = client->List(0, {});
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->job_size(), 2500);
  EXPECT_EQ(all->job(0).id(), 2500u);
  EXPECT_EQ(all->job(2499).id(), 1u);
  EXPECT_FALSE(all->more());
  EXPECT_EQ(coordinator.listed().size(), 3u);

  const auto some = client->List(1200, {});
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->job_size(), 1200);
  EXPECT_EQ(some->job(1199).id(), 1301u);
  EXPECT_TRUE(some->more());
}

TEST(JobClientTest, AListThatDoesNotEndIsAnError) {
  FakeCoordinator coordinator;
  for (int i = 0; i < 3000; ++i) coordinator.AddJob(Job(0, "j"));
  EXPECT_FALSE(Connect(FastOptions(coordinator.address()))->List(0, {}).status().ok());
}

TEST(JobClientTest, WatchesToTheEnd) {
  FakeCoordinator coordinator;
  coordinator.AddJob(Job(1, "a"));
  coordinator.AddWatch({Event(1, "x"), Event(2, "y"), Ended(3)}, FakeCoordinator::End::kOk);
  Recorder recorder;
  ASSERT_TRUE(Connect(FastOptions(coordinator.address()))->Watch(1, 0, &recorder).ok());
  EXPECT_THAT(recorder.revisions, ElementsAre(1, 2, 3));
}

TEST(JobClientTest, ResumesBehindTheLastEvent) {
  FakeCoordinator coordinator;
  coordinator.AddJob(Job(1, "a"));
  coordinator.AddWatch({Event(1, "x"), Event(2, "y")}, FakeCoordinator::End::kUnavailable);
  coordinator.AddWatch({}, FakeCoordinator::End::kUnavailable);
  coordinator.AddWatch({Event(1, "x"), Event(2, "y"), Event(3, "z"), Ended(4)},
                       FakeCoordinator::End::kOk);
  Recorder recorder;
  ASSERT_TRUE(Connect(FastOptions(coordinator.address()))->Watch(1, 0, &recorder).ok());
  EXPECT_THAT(recorder.revisions, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(recorder.lost, 2);
  const auto watched = coordinator.watched();
  ASSERT_EQ(watched.size(), 3u);
  EXPECT_EQ(watched[1].after_revision(), 2u);
  EXPECT_EQ(watched[2].after_revision(), 2u);
  EXPECT_EQ(watched[0].job(), "1");
}

TEST(JobClientTest, ResumesWithACoordinatorThatCameBack) {
  auto coordinator = std::make_unique<FakeCoordinator>();
  const int port = coordinator->port();
  const v1::Job job = Job(1, "a");
  coordinator->AddJob(job);
  coordinator->AddWatch({Event(1, "x")}, FakeCoordinator::End::kStayOpen);
  // Replaces the coordinator when its first event has come.
  class Restarter : public Recorder {
   public:
    std::function<void()> restart;
    absl::Status OnEvent(const v1::JobEvent& event) override {
      RETURN_IF_ERROR(Recorder::OnEvent(event));
      if (event.revision() == 1) restart();
      return absl::OkStatus();
    }
  } recorder;
  recorder.restart = [&] {
    coordinator.reset();
    coordinator = std::make_unique<FakeCoordinator>(port);
    coordinator->AddJob(job);
    coordinator->AddWatch({Event(1, "x"), Ended(2)}, FakeCoordinator::End::kOk);
  };
  const auto client = Connect(FastOptions(coordinator->address()));
  const absl::Status status = client->Watch(1, 0, &recorder);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(recorder.revisions, ElementsAre(1, 2));
  EXPECT_EQ(coordinator->watched()[0].after_revision(), 1u);
}

TEST(JobClientTest, AQuietStreamIsTakenUpAgainWithoutALoss) {
  FakeCoordinator coordinator;
  coordinator.AddJob(Job(1, "a"));
  coordinator.AddWatch({Event(1, "x")}, FakeCoordinator::End::kStayOpen);
  coordinator.AddWatch({Ended(2)}, FakeCoordinator::End::kOk);
  JobClient::Options options = FastOptions(coordinator.address());
  options.stream_deadline = absl::Milliseconds(200);
  Recorder recorder;
  ASSERT_TRUE(Connect(std::move(options))->Watch(1, 0, &recorder).ok());
  EXPECT_THAT(recorder.revisions, ElementsAre(1, 2));
  EXPECT_EQ(recorder.lost, 0);
  EXPECT_GE(recorder.idle, 1);
}

TEST(JobClientTest, AWatchGivesUpWhenTheCoordinatorStaysAway) {
  auto coordinator = std::make_unique<FakeCoordinator>();
  coordinator->AddJob(Job(1, "a"));
  coordinator->AddWatch({Event(1, "x")}, FakeCoordinator::End::kUnavailable);
  JobClient::Options options = FastOptions(coordinator->address());
  options.timeout = absl::Milliseconds(300);
  const auto client = Connect(std::move(options));
  class Stopper : public Recorder {
   public:
    std::unique_ptr<FakeCoordinator>* coordinator = nullptr;
    void OnLost(const absl::Status& why) override {
      Recorder::OnLost(why);
      coordinator->reset();
    }
  } recorder;
  recorder.coordinator = &coordinator;
  const absl::Status status = client->Watch(1, 0, &recorder);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be reached"));
}

// The coordinator breaks off who does not read; a terminal that was stopped reads on later.
TEST(JobClientTest, AClientThatWasStoppedForAWhileMissesNothing) {
  RefusalCounts counts;
  StalledCalls stalled(absl::Milliseconds(300), &Clock::Real(), &counts);
  FakeCoordinator coordinator;
  coordinator.AddJob(Job(1, "a"));
  coordinator.SetStalledCalls(&stalled);
  // More than the windows of HTTP/2 and the buffers of the system hold.
  constexpr uint64_t kEvents = 640;
  std::vector<v1::JobEvent> events;
  for (uint64_t i = 1; i < kEvents; ++i) events.push_back(Event(i, std::string(100'000, 'x')));
  events.push_back(Ended(kEvents));
  coordinator.AddWatch(events, FakeCoordinator::End::kOk);
  std::atomic<bool> done{false};
  std::thread checks([&] {
    for (; !done; absl::SleepFor(absl::Milliseconds(20))) stalled.Check();
  });
  class Stopped : public Recorder {
   public:
    RefusalCounts* counts = nullptr;
    absl::Status OnEvent(const v1::JobEvent& event) override {
      const absl::Time until = absl::Now() + absl::Seconds(20);
      while (event.revision() == 3 && counts->Get(Refusal::kStalledCall) == 0 &&
             absl::Now() < until) {
        absl::SleepFor(absl::Milliseconds(20));
      }
      return Recorder::OnEvent(event);
    }
  } recorder;
  recorder.counts = &counts;
  const absl::Status status = Connect(FastOptions(coordinator.address()))->Watch(1, 0, &recorder);
  done = true;
  checks.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GE(counts.Get(Refusal::kStalledCall), 1u);
  EXPECT_GE(recorder.lost, 1);
  ASSERT_EQ(recorder.revisions.size(), kEvents);
  for (uint64_t i = 0; i < kEvents; ++i) ASSERT_EQ(recorder.revisions[i], i + 1);
}

TEST(JobClientTest, AStreamThatIsAlwaysCancelledEndsTheWatch) {
  FakeCoordinator coordinator;
  coordinator.AddJob(Job(1, "a"));
  coordinator.AddWatch({}, FakeCoordinator::End::kCancelled);
  Recorder recorder;
  const absl::Status status = Connect(FastOptions(coordinator.address()))->Watch(1, 0, &recorder);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(recorder.lost, 20);
}

TEST(JobClientTest, CallsThatAreBrokenOffForRoomAreRepeated) {
  const grpc::Status broken(grpc::StatusCode::RESOURCE_EXHAUSTED,
                            "Received RST_STREAM with error code 11");
  FakeCoordinator coordinator;
  coordinator.AddJob(Job(1, "a"));
  coordinator.AddWatch({Event(1, "x"), Ended(2)}, FakeCoordinator::End::kOk);
  const auto client = Connect(FastOptions(coordinator.address()));
  coordinator.FailNext(2, broken);
  EXPECT_TRUE(client->Get("a").ok());
  coordinator.FailNext(
      2, grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "Server Threadpool Exhausted"));
  EXPECT_TRUE(client->Get("a").ok());
  coordinator.FailNext(3, broken);  // of the stream, and of the question behind it
  Recorder recorder;
  ASSERT_TRUE(client->Watch(1, 0, &recorder).ok());
  EXPECT_THAT(recorder.revisions, ElementsAre(1, 2));
}

TEST(JobClientTest, AWatchThatFindsNoPlaceEndsAndOneThatGoesOnTriesAgain) {
  const grpc::Status full(grpc::StatusCode::RESOURCE_EXHAUSTED, "quota: no place");
  FakeCoordinator coordinator;
  coordinator.AddJob(Job(1, "a"));
  coordinator.AddWatch({Event(1, "x")}, FakeCoordinator::End::kCancelled);
  coordinator.AddWatch({Event(1, "x"), Ended(2)}, FakeCoordinator::End::kOk);
  const auto client = Connect(FastOptions(coordinator.address()));
  coordinator.FailNext(1, full);
  Recorder recorder;
  EXPECT_EQ(client->Watch(1, 0, &recorder).code(), absl::StatusCode::kResourceExhausted);
  class Crowded : public Recorder {
   public:
    FakeCoordinator* coordinator = nullptr;
    grpc::Status full;
    void OnBack() override {
      if (!filled) coordinator->FailNext(1, full);
      filled = true;
    }
    bool filled = false;
  } crowded;
  crowded.coordinator = &coordinator;
  crowded.full = full;
  const absl::Status status = client->Watch(1, 0, &crowded);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(crowded.revisions, ElementsAre(1, 2));
  EXPECT_EQ(crowded.lost, 2);
}

TEST(JobClientTest, AStreamThatAlwaysBreaksEndsTheWatch) {
  FakeCoordinator coordinator;
  coordinator.AddJob(Job(1, "a"));
  coordinator.AddWatch({}, FakeCoordinator::End::kUnavailable);
  Recorder recorder;
  const absl::Status status = Connect(FastOptions(coordinator.address()))->Watch(1, 0, &recorder);
  EXPECT_EQ(status, absl::UnavailableError("scripted"));
  EXPECT_EQ(recorder.lost, 20);
}

TEST(JobClientTest, ErrorsOfTheHandlerEndTheWatch) {
  FakeCoordinator coordinator;
  coordinator.AddJob(Job(1, "a"));
  coordinator.AddWatch({Event(1, "x"), Event(2, "y")}, FakeCoordinator::End::kStayOpen);
  const auto client = Connect(FastOptions(coordinator.address()));
  Recorder recorder;
  recorder.stop_at = 1;
  EXPECT_EQ(client->Watch(1, 0, &recorder), absl::AbortedError("stop"));
  EXPECT_THAT(recorder.revisions, ElementsAre(1));

  Recorder waiting;
  waiting.stop_at_idle = 2;
  EXPECT_EQ(client->Watch(1, 0, &waiting), absl::AbortedError("idle stop"));
  // The client still works.
  EXPECT_TRUE(client->Get("1").ok());
}

TEST(JobClientTest, WatchingNothingIsAnError) {
  FakeCoordinator coordinator;
  Recorder recorder;
  EXPECT_EQ(Connect(FastOptions(coordinator.address()))->Watch(7, 0, &recorder),
            absl::NotFoundError("no such job"));
}

TEST(JobClientTest, RequestIdsAreFresh) {
  const std::string id = NewRequestId();
  EXPECT_EQ(id.size(), 32u);
  EXPECT_NE(id, NewRequestId());
}

// Reads so long.
class SlowReader : public FakeCoordinator {
 public:
  grpc::Status VerifyCheckpoint(grpc::ServerContext* /*context*/,
                                const v1::VerifyCheckpointRequest* /*request*/,
                                v1::Checkpoint* response) override {
    absl::SleepFor(absl::Milliseconds(500));
    response->set_step(7);
    return grpc::Status::OK;
  }
  grpc::Status SubmitJob(grpc::ServerContext* context, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override {
    if (!request->spec().resume_from().empty()) absl::SleepFor(absl::Milliseconds(500));
    return FakeCoordinator::SubmitJob(context, request, response);
  }
};

TEST(JobClientTest, ACheckpointMayTakeAWhileToRead) {
  SlowReader coordinator;
  JobClient::Options options = FastOptions(coordinator.address());
  options.call_deadline = absl::Milliseconds(100);
  options.timeout = absl::Milliseconds(200);
  const auto client = Connect(std::move(options));
  const auto checkpoint = client->VerifyCheckpoint("1");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->step(), 7u);
  v1::SubmitJobRequest request;
  request.mutable_spec()->set_resume_from("1");
  const auto job = client->Submit(request);
  EXPECT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(coordinator.submitted().size(), 1u);
}

}  // namespace
}  // namespace sangam
