#include "worker/rpc/grpc_pipeline_link.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/version.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/host_port.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/pipeline_service.grpc.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "tests/testing/cutting_proxy.h"
#include "tests/testing/flow_plan.h"
#include "tests/testing/flow_traffic.h"
#include "worker/core/flow_tag.h"
#include "worker/pipeline_server.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using testing::FlowPlan;
using ::testing::HasSubstr;
using testing::MakePlan;
using testing::ReceiveTensor;
using testing::RunTraffic;
using testing::SendTensor;

constexpr absl::Duration kWait = absl::Seconds(30);
constexpr FlowTag kFirst = {0, false, 0, 0, FlowDirection::kForward};
constexpr FlowTag kFirstBack = {0, false, 0, 0, FlowDirection::kBackward};

// Hears of a link's failure.
class Failure {
 public:
  std::function<void(const absl::Status&)> Hearer() {
    return [this](const absl::Status& status) {
      MutexLock lock(&mutex_);
      EXPECT_FALSE(status_.has_value());
      status_ = status;
      changed_.SignalAll();
    };
  }
  absl::Status Wait() {
    const absl::Duration until = Clock::Real().Steady() + kWait;
    MutexLock lock(&mutex_);
    while (!status_.has_value() && Clock::Real().Steady() < until) {
      changed_.WaitFor(&mutex_, absl::Seconds(1));
    }
    return status_.value_or(absl::OkStatus());
  }
  bool heard() {
    MutexLock lock(&mutex_);
    return status_.has_value();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mutex_);
};

class GrpcPipelineLinkTest : public ::testing::Test {
 protected:
  GrpcPipelineLinkTest() {
    // For good: the end of the last object of gRPC can wait 10 s for a poller of its own.
    static const bool kept_alive = (grpc_init(), true);
    EXPECT_TRUE(kept_alive);
    server_options_.link.backoff = {absl::Milliseconds(2), absl::Milliseconds(20)};
    server_options_.service.check_interval = absl::Milliseconds(20);
  }

  // Servers of all workers.
  void StartServers(FlowPlan flow) {
    flow_ = std::move(flow);
    failures_ = std::vector<Failure>(flow_.ranks * flow_.replicas);
    for (uint32_t w = 0; w < flow_.ranks * flow_.replicas; ++w) {
      servers_.push_back(PipelineServer::Start(server_options_).value());
      flow_.addresses.push_back(servers_.back()->address());
    }
    links_.resize(servers_.size());
  }

  // The worker's link, of the plan as it is now.
  void MakeLink(uint32_t worker) {
    plans_.push_back(std::make_unique<v1::Plan>(MakePlan(flow_)));
    PipelineLinkOptions options;
    options.plan = plans_.back().get();
    options.worker = worker;
    options.lanes = flow_.lanes;
    options.max_rows = 3;
    options.kept = flow_.lanes;
    links_[worker] = servers_[worker]->Factory()(options).value();
  }
  void Start(uint32_t worker) {
    ASSERT_EQ(links_[worker]->Start(failures_[worker].Hearer()), absl::OkStatus());
  }
  void StartAll(FlowPlan flow) {
    StartServers(std::move(flow));
    MakeAndStartLinks();
  }
  void MakeAndStartLinks() {
    for (uint32_t w = 0; w < links_.size(); ++w) MakeLink(w);
    for (uint32_t w = 0; w < links_.size(); ++w) Start(w);
  }

  std::vector<PipelineLink*> all() {
    std::vector<PipelineLink*> all;
    for (const auto& link : links_) all.push_back(link.get());
    return all;
  }

  // Every worker closes on a thread of its own, as workers do.
  void CloseAll() {
    std::vector<std::thread> threads;
    for (const auto& link : links_) {
      threads.emplace_back([&link] { EXPECT_EQ(link->Close(kWait), absl::OkStatus()); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  PipelineServer::Options server_options_;
  FlowPlan flow_;
  std::vector<std::unique_ptr<v1::Plan>> plans_;
  std::vector<Failure> failures_;
  std::vector<std::unique_ptr<PipelineServer>> servers_;
  std::vector<std::unique_ptr<PipelineLink>> links_;
};

TEST_F(GrpcPipelineLinkTest, ManyTensorsBothWaysArriveIntact) {
  FlowPlan flow;
  flow.ranks = 3;
  flow.lanes = 2;
  flow.columns = {10, 300000};
  StartAll(flow);
  EXPECT_EQ(RunTraffic({3, 3, 6}, *plans_[0], all()), absl::OkStatus());
  CloseAll();
}

TEST_F(GrpcPipelineLinkTest, StagesInTurnAndSkipsUseStreamsBothWays) {
  FlowPlan flow;
  flow.chunks = 2;
  flow.lanes = 2;
  flow.columns = {10};
  flow.skips = {{0, 2}, {0, 3}};
  StartAll(flow);
  EXPECT_EQ(RunTraffic({3, 3, 6}, *plans_[0], all()), absl::OkStatus());
  CloseAll();
}

TEST_F(GrpcPipelineLinkTest, ConnectionsThatAreCutChangeNothing) {
  FlowPlan flow;
  flow.ranks = 3;
  flow.lanes = 2;
  // Small enough that no write waits for the proxy, which no longer reads once it has cut: that
  // would be noticed by the next ping only.
  flow.columns = {1000, 3000};
  StartServers(flow);
  std::vector<std::unique_ptr<CuttingProxy>> proxies;
  for (uint32_t w = 1; w < 3; ++w) {
    const HostPort target = ParseTarget(flow_.addresses[w]).value();
    proxies.push_back(std::make_unique<CuttingProxy>(target.port, w, 6, 150'000));
    flow_.addresses[w] = proxies.back()->address();
  }
  MakeAndStartLinks();
  EXPECT_EQ(RunTraffic({8, 3, 4}, *plans_[0], all()), absl::OkStatus());
  for (const auto& proxy : proxies) EXPECT_GT(proxy->num_cut(), 2);
  CloseAll();
}

TEST_F(GrpcPipelineLinkTest, CreditsAreRespected) {
  StartAll(FlowPlan{});
  for (uint32_t m = 0; m < 2; ++m) {
    ASSERT_TRUE(
        SendTensor(links_[0].get(), 0, {0, false, m, 0, FlowDirection::kForward}, {1, 10}).ok());
  }
  const absl::Status status =
      links_[0]->Reserve(0, 0, FlowDirection::kForward, absl::Milliseconds(50)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("worker w-1 (", flow_.addresses[1], ")")));
  ASSERT_TRUE(ReceiveTensor(links_[1].get(), 0, kFirst, {1, 10}).ok());
  EXPECT_TRUE(links_[0]->Reserve(0, 0, FlowDirection::kForward, kWait).ok());
}

TEST_F(GrpcPipelineLinkTest, TensorsMayComeBeforeTheReceiverStarts) {
  StartServers(FlowPlan{});
  MakeLink(0);
  MakeLink(1);
  Start(0);
  ASSERT_TRUE(SendTensor(links_[0].get(), 0, kFirst, {1, 10}).ok());
  EXPECT_TRUE(ReceiveTensor(links_[1].get(), 0, kFirst, {1, 10}).ok());
}

TEST_F(GrpcPipelineLinkTest, OneLinkOfAJobAtATime) {
  StartServers(FlowPlan{});
  MakeLink(0);
  PipelineLinkOptions options;
  options.plan = plans_[0].get();
  options.max_rows = 3;
  EXPECT_EQ(servers_[0]->Factory()(options).status().code(), absl::StatusCode::kAlreadyExists);
  links_[0] = nullptr;
  EXPECT_TRUE(servers_[0]->Factory()(options).ok());
}

TEST_F(GrpcPipelineLinkTest, RefusalsFailTheLinkAtOnceAndNameTheOtherWorker) {
  StartServers(FlowPlan{});
  const auto failure = [this]() {
    MakeLink(0);
    failures_ = std::vector<Failure>(2);
    Start(0);
    const absl::Status status = failures_[0].Wait();
    EXPECT_EQ(links_[0]->Receive(0, kFirstBack, {1, 10}, kWait).status(), status);
    EXPECT_EQ(links_[0]->Close(kWait), status);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("worker w-1 (", flow_.addresses[1], "): ")));
    links_[0] = nullptr;
    return status;
  };
  EXPECT_EQ(failure().code(), absl::StatusCode::kNotFound);
  MakeLink(1);
  flow_.generation = 1;
  const absl::Status older = failure();
  EXPECT_EQ(older.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(older.message()), HasSubstr("generation of job 7"));
  // Nobody here is harmed by it.
  flow_.generation = 2;
  MakeLink(0);
  failures_ = std::vector<Failure>(2);
  Start(0);
  Start(1);
  EXPECT_EQ(RunTraffic({1, 1, 2}, *plans_.back(), all()), absl::OkStatus());
}

TEST_F(GrpcPipelineLinkTest, WorkerThatDiesIsNamedWithinTheDeadline) {
  server_options_.link.connect_deadline = absl::Milliseconds(300);
  FlowPlan flow;
  flow.ranks = 3;
  StartAll(flow);
  ASSERT_EQ(RunTraffic({1, 1, 0}, *plans_[0], all()), absl::OkStatus());
  // Without a word to anybody but the end of its connections.
  links_[1]->Stop();
  servers_[1]->Shutdown();
  links_[1] = nullptr;
  const absl::Duration begin = Clock::Real().Steady();
  const absl::Status front =
      links_[0]->Receive(0, {1, false, 0, 0, FlowDirection::kBackward}, {1, 10}, kWait).status();
  const absl::Status behind =
      links_[2]->Receive(0, {1, false, 0, 1, FlowDirection::kForward}, {1, 10}, kWait).status();
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(10));
  const std::string name = absl::StrCat("worker w-1 (", flow_.addresses[1], "): ");
  EXPECT_EQ(front.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(front.message()), AllOf(HasSubstr(name), HasSubstr("no working stream")));
  EXPECT_EQ(behind.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(behind.message()), AllOf(HasSubstr(name), HasSubstr("no stream open")));
  EXPECT_EQ(failures_[0].Wait(), front);
  EXPECT_EQ(failures_[2].Wait(), behind);
}

TEST_F(GrpcPipelineLinkTest, WorkerThatNeverComesIsMissedOnlyWhenItIsNeeded) {
  server_options_.link.connect_deadline = absl::Milliseconds(100);
  StartServers(FlowPlan{});
  MakeLink(1);
  Start(1);
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_FALSE(failures_[1].heard());
  const absl::Status status = links_[1]->Receive(0, kFirst, {1, 10}, kWait).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(absl::StrCat("worker w-0 (", flow_.addresses[0], "): it has had no stream")));
}

TEST_F(GrpcPipelineLinkTest, StopWakesWaitersAndCloseEndsInOrder) {
  StartAll(FlowPlan{});
  std::thread stopper([this] {
    absl::SleepFor(absl::Milliseconds(50));
    for (PipelineLink* link : all()) link->Stop();
  });
  EXPECT_TRUE(absl::IsCancelled(links_[1]->Receive(0, kFirst, {1, 10}, kWait).status()));
  EXPECT_TRUE(absl::IsCancelled(links_[0]->Receive(0, kFirstBack, {1, 10}, kWait).status()));
  stopper.join();
  CloseAll();
  EXPECT_FALSE(failures_[0].heard());
  EXPECT_FALSE(failures_[1].heard());
  EXPECT_EQ(links_[0]->Start(nullptr).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(GrpcPipelineLinkTest, CloseWaitsForTheLastTensors) {
  StartAll(FlowPlan{});
  ASSERT_TRUE(SendTensor(links_[0].get(), 0, kFirst, {3, 10}).ok());
  std::thread closer([this] { EXPECT_EQ(links_[0]->Close(kWait), absl::OkStatus()); });
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_TRUE(ReceiveTensor(links_[1].get(), 0, kFirst, {3, 10}).ok());
  EXPECT_EQ(links_[1]->Close(kWait), absl::OkStatus());
  closer.join();
}

TEST_F(GrpcPipelineLinkTest, CloseIsBoundedWhenOthersDoNotEnd) {
  StartAll(FlowPlan{});
  ASSERT_TRUE(SendTensor(links_[0].get(), 0, kFirst, {3, 10}).ok());
  ASSERT_TRUE(ReceiveTensor(links_[1].get(), 0, kFirst, {3, 10}).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(links_[1]->Close(absl::Milliseconds(50))));
}

TEST_F(GrpcPipelineLinkTest, NeighboursLearnWhyARunHasFailed) {
  FlowPlan flow;
  flow.ranks = 3;
  StartAll(flow);
  ASSERT_EQ(RunTraffic({1, 1, 0}, *plans_[0], all()), absl::OkStatus());
  const absl::Status reason = absl::InternalError("the disk is broken");
  links_[1]->Fail(reason);
  EXPECT_EQ(links_[1]->Receive(0, kFirst, {1, 10}, kWait).status(), reason);
  const absl::Status expected = absl::InternalError(
      absl::StrCat("worker w-1 (", flow_.addresses[1], "): the disk is broken"));
  EXPECT_EQ(failures_[0].Wait(), expected);
  // Also one that comes when the streams are gone.
  EXPECT_EQ(links_[1]->Close(absl::ZeroDuration()), reason);
  links_[0] = nullptr;
  MakeLink(0);
  failures_ = std::vector<Failure>(3);
  Start(0);
  const absl::Status later = failures_[0].Wait();
  EXPECT_EQ(later.code(), expected.code());
  EXPECT_THAT(std::string(later.message()), HasSubstr("the disk is broken"));
}

TEST_F(GrpcPipelineLinkTest, NeighbourThatHasForgottenTheJobMayBeReachedAgain) {
  StartAll(FlowPlan{});
  ASSERT_EQ(RunTraffic({1, 1, 0}, *plans_[0], all()), absl::OkStatus());
  links_[1] = nullptr;
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_FALSE(failures_[0].heard());
  MakeLink(1);
  failures_ = std::vector<Failure>(2);
  Start(1);
  ASSERT_TRUE(
      SendTensor(links_[0].get(), 0, {1, false, 0, 0, FlowDirection::kForward}, {1, 10}).ok());
  EXPECT_TRUE(
      ReceiveTensor(links_[1].get(), 0, {1, false, 0, 0, FlowDirection::kForward}, {1, 10}).ok());
}

TEST_F(GrpcPipelineLinkTest, NeighbourThatIsOutOfReachIsMissedOnlyWhenItIsNeeded) {
  server_options_.link.connect_deadline = absl::Milliseconds(100);
  StartServers(FlowPlan{});
  servers_[1]->Shutdown();
  MakeLink(0);
  Start(0);
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_FALSE(failures_[0].heard());
  const absl::Status status = links_[0]->Receive(0, kFirstBack, {1, 10}, kWait).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no working stream"));
}

// Another implementation's last worker: what it says when the one behind it has half-closed.
class RawNeighbour final : public v1::PipelineService::Service {
 public:
  explicit RawNeighbour(bool silent) : silent_(silent) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~RawNeighbour() override { server_->Shutdown(); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  grpc::Status Flow(grpc::ServerContext* context,
                    grpc::ServerReaderWriter<v1::TensorFrame, v1::TensorFrame>* stream) override {
    v1::TensorFrame frame;
    while (stream->Read(&frame)) {
    }
    while (silent_ && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
    return grpc::Status(grpc::StatusCode::INTERNAL, "not understood");
  }

  const bool silent_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(GrpcPipelineLinkTest, AnErrorAtTheEndDoesNotHarmThoseInFront) {
  RawNeighbour last(false);
  FlowPlan flow;
  flow.ranks = 3;
  StartServers(flow);
  flow_.addresses[2] = last.address();
  MakeLink(0);
  MakeLink(1);
  Start(0);
  Start(1);
  ASSERT_TRUE(SendTensor(links_[0].get(), 0, kFirst, {3, 10}).ok());
  ASSERT_TRUE(ReceiveTensor(links_[1].get(), 0, kFirst, {3, 10}).ok());
  std::thread closer([this, &last] {
    EXPECT_EQ(links_[1]->Close(kWait), absl::InternalError(absl::StrCat(
                                           "worker w-2 (", last.address(), "): not understood")));
  });
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_FALSE(failures_[0].heard());
  EXPECT_FALSE(failures_[1].heard());
  EXPECT_EQ(links_[0]->Close(kWait), absl::OkStatus());
  closer.join();
}

TEST_F(GrpcPipelineLinkTest, StopEndsEveryWaitOfClose) {
  RawNeighbour last(true);
  StartServers(FlowPlan{});
  flow_.addresses[1] = last.address();
  MakeLink(0);
  Start(0);
  std::thread closer([this] { EXPECT_EQ(links_[0]->Close(kWait), absl::OkStatus()); });
  // All is said: it waits for the last word of the other.
  absl::SleepFor(absl::Milliseconds(200));
  const absl::Duration begin = Clock::Real().Steady();
  links_[0]->Stop();
  closer.join();
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(2));
}

// Another implementation's worker 0.
class RawFlow {
 public:
  explicit RawFlow(const std::string& address)
      : stub_(v1::PipelineService::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        stream_(stub_->Flow(&context_)) {}

  static v1::TensorFrame Hello() {
    v1::StreamHello hello;
    hello.set_protocol_version(kProtocolVersion);
    hello.set_schema_hash(0x5a5a);
    hello.set_worker("w-0");
    hello.set_incarnation(100);
    v1::TensorFrame frame = Frame(v1::FRAME_KIND_HELLO);
    frame.set_payload(hello.SerializeAsString());
    return frame;
  }
  static v1::TensorFrame Frame(v1::FrameKind kind) {
    v1::TensorFrame frame;
    frame.mutable_header()->set_kind(kind);
    frame.mutable_header()->set_job(7);
    frame.mutable_header()->set_generation(2);
    return frame;
  }
  static v1::TensorFrame Activation(uint32_t micro_batch) {
    v1::TensorFrame frame = Frame(v1::FRAME_KIND_ACTIVATION);
    frame.mutable_header()->set_encoding(v1::ENCODING_FP32);
    frame.mutable_header()->set_micro_batch(micro_batch);
    frame.mutable_header()->set_rows(2);
    frame.mutable_header()->set_columns(10);
    frame.mutable_header()->set_element_count(20);
    frame.set_payload(std::string(80, '\0'));
    return frame;
  }

  void Send(const v1::TensorFrame& frame) { stream_->Write(frame); }
  void Break() { context_.TryCancel(); }
  std::optional<v1::FrameHeader> Read() {
    v1::TensorFrame frame;
    if (!stream_->Read(&frame)) return std::nullopt;
    return frame.header();
  }
  absl::Status Finish() {
    stream_->WritesDone();
    while (Read().has_value()) {
    }
    return FromGrpcStatus(stream_->Finish());
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::PipelineService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::TensorFrame, v1::TensorFrame>> stream_;
};

class RawFlowTest : public GrpcPipelineLinkTest {
 protected:
  void Listen() {
    if (servers_.empty()) StartServers(FlowPlan{});
    links_[1] = nullptr;
    failures_ = std::vector<Failure>(2);
    MakeLink(1);
    Start(1);
  }
};

TEST_F(RawFlowTest, TakenTensorIsSaidToBeTaken) {
  Listen();
  RawFlow flow(flow_.addresses[1]);
  flow.Send(RawFlow::Hello());
  flow.Send(RawFlow::Activation(3));
  EXPECT_TRUE(
      links_[1]->Receive(0, {0, false, 3, 0, FlowDirection::kForward}, {2, 10}, kWait).ok());
  const std::optional<v1::FrameHeader> taken = flow.Read();
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->kind(), v1::FRAME_KIND_TAKEN);
  EXPECT_EQ(taken->micro_batch(), 3);
  EXPECT_EQ(taken->source(), 1);
  EXPECT_FALSE(taken->backward());
  EXPECT_EQ(flow.Finish(), absl::OkStatus());
}

TEST_F(RawFlowTest, CloseWaitsForAStreamThatWasLost) {
  Listen();
  RawFlow lost(flow_.addresses[1]);
  lost.Send(RawFlow::Hello());
  lost.Send(RawFlow::Activation(0));
  EXPECT_TRUE(links_[1]->Receive(0, kFirst, {2, 10}, kWait).ok());
  lost.Break();
  std::atomic<bool> closed{false};
  std::thread closer([this, &closed] {
    EXPECT_EQ(links_[1]->Close(kWait), absl::OkStatus());
    closed = true;
  });
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_FALSE(closed);
  // Whether the word had come is not known, so it is said again.
  RawFlow again(flow_.addresses[1]);
  again.Send(RawFlow::Hello());
  const std::optional<v1::FrameHeader> taken = again.Read();
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->kind(), v1::FRAME_KIND_TAKEN);
  EXPECT_EQ(again.Finish(), absl::OkStatus());
  closer.join();
}

TEST_F(RawFlowTest, FramesThatMustNotComeEndTheStreamAndTheLink) {
  using Code = absl::StatusCode;
  const auto spoilt = [](const std::function<void(v1::FrameHeader*)>& spoil) {
    v1::TensorFrame frame = RawFlow::Activation(0);
    spoil(frame.mutable_header());
    return frame;
  };
  const std::vector<std::pair<v1::TensorFrame, std::pair<Code, std::string>>> bad = {
      {spoilt([](auto* h) { h->set_columns(9); }), {Code::kInvalidArgument, "expected at most [3"}},
      {spoilt([](auto* h) { h->set_micro_batch(9); }), {Code::kInvalidArgument, "micro_batch"}},
      {spoilt([](auto* h) { h->set_generation(3); }), {Code::kAborted, "generation"}},
      {RawFlow::Hello(), {Code::kInvalidArgument, "kind: found FRAME_KIND_HELLO"}},
  };
  for (const auto& [frame, expected] : bad) {
    SCOPED_TRACE(expected.second);
    Listen();
    RawFlow flow(flow_.addresses[1]);
    flow.Send(RawFlow::Hello());
    flow.Send(frame);
    const absl::Status status = flow.Finish();
    EXPECT_EQ(status.code(), expected.first);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(expected.second), HasSubstr("to worker w-1")));
    EXPECT_EQ(failures_[1].Wait().code(), expected.first);
  }
}

TEST_F(RawFlowTest, MoreThanCreditsIsRefused) {
  Listen();
  RawFlow flow(flow_.addresses[1]);
  flow.Send(RawFlow::Hello());
  for (uint32_t m = 0; m < 3; ++m) flow.Send(RawFlow::Activation(m));
  EXPECT_EQ(flow.Finish().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(failures_[1].Wait().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(RawFlowTest, StreamsThatDoNotBelongHereAreRefusedAndHarmNobody) {
  server_options_.service.hello_deadline = absl::Milliseconds(100);
  Listen();
  const auto first = [this](const v1::TensorFrame& frame) {
    RawFlow flow(flow_.addresses[1]);
    flow.Send(frame);
    return flow.Finish();
  };
  v1::TensorFrame foreign = RawFlow::Hello();
  foreign.mutable_header()->set_job(8);
  EXPECT_EQ(first(foreign).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(first(RawFlow::Activation(0)).code(), absl::StatusCode::kInvalidArgument);
  v1::TensorFrame schema = RawFlow::Hello();
  v1::StreamHello hello;
  hello.ParseFromString(schema.payload());
  hello.set_schema_hash(1);
  schema.set_payload(hello.SerializeAsString());
  EXPECT_EQ(first(schema).code(), absl::StatusCode::kFailedPrecondition);
  RawFlow silent(flow_.addresses[1]);
  EXPECT_FALSE(silent.Read().has_value());
  EXPECT_EQ(silent.Finish().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(failures_[1].heard());
}

}  // namespace
}  // namespace sangam
