#include "worker/runtime/flow_exchange.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/version.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "tests/testing/fake_pipeline_network.h"
#include "tests/testing/flow_plan.h"
#include "tests/testing/flow_traffic.h"
#include "worker/core/flow_tag.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using testing::FakePipelineNetwork;
using testing::FlowPlan;
using ::testing::HasSubstr;
using testing::MakePlan;
using testing::ReceiveTensor;
using testing::RunTraffic;
using testing::SendTensor;

constexpr absl::Duration kWait = absl::Seconds(30);
constexpr FlowTag kFirst = {0, false, 0, 0, FlowDirection::kForward};

// The links of a plan's workers in one process.
class Workers {
 public:
  explicit Workers(const FlowPlan& flow, uint64_t max_rows = 3) : plan_(MakePlan(flow)) {
    for (int w = 0; w < plan_.worker_size(); ++w) {
      PipelineLinkOptions options;
      options.plan = &plan_;
      options.worker = static_cast<uint32_t>(w);
      options.lanes = flow.lanes;
      options.max_rows = max_rows;
      options.kept = flow.lanes;
      links_.push_back(network_.Factory()(options).value());
    }
    for (const auto& link : links_) {
      EXPECT_TRUE(link->Start([this](const absl::Status& status) {
                        MutexLock lock(&mutex_);
                        failures_.push_back(status);
                      })
                      .ok());
    }
  }

  const v1::Plan& plan() const { return plan_; }
  FakePipelineNetwork& network() { return network_; }
  PipelineLink* operator[](size_t worker) { return links_[worker].get(); }
  std::vector<PipelineLink*> all() {
    std::vector<PipelineLink*> all;
    for (const auto& link : links_) all.push_back(link.get());
    return all;
  }
  std::vector<absl::Status> failures() {
    MutexLock lock(&mutex_);
    return failures_;
  }

 private:
  const v1::Plan plan_;
  Mutex mutex_;
  std::vector<absl::Status> failures_ ABSL_GUARDED_BY(mutex_);
  FakePipelineNetwork network_;
  std::vector<std::unique_ptr<PipelineLink>> links_;
};

TEST(FlowExchangeTest, TensorsOfEveryBoundaryArriveIntact) {
  FlowPlan flow;
  flow.ranks = 2;
  flow.chunks = 2;
  flow.replicas = 2;
  flow.lanes = 2;
  flow.columns = {10};
  flow.skips = {{0, 2}, {0, 3}};
  Workers workers(flow);
  EXPECT_EQ(RunTraffic({3, 3, 8}, workers.plan(), workers.all()), absl::OkStatus());
  for (PipelineLink* link : workers.all()) EXPECT_EQ(link->Close(kWait), absl::OkStatus());
}

TEST(FlowExchangeTest, StreamsThatAreLostAgainAndAgainChangeNothing) {
  FlowPlan flow;
  flow.ranks = 3;
  flow.lanes = 2;
  flow.columns = {10, 300000};
  Workers workers(flow);
  std::atomic<bool> done{false};
  std::thread cutter([&] {
    // Less and less often: what was not taken goes out again with every stream, up to some 40
    // frames, and streams that were always shorter would never bring anything new.
    uint64_t frames = 5;
    for (uint64_t seen = 0; !done; std::this_thread::yield()) {
      if (workers.network().num_frames() < seen + frames) continue;
      seen = workers.network().num_frames();
      ++frames;
      workers.network().Cut();
    }
  });
  EXPECT_EQ(RunTraffic({4, 3, 4}, workers.plan(), workers.all()), absl::OkStatus());
  done = true;
  cutter.join();
}

TEST(FlowExchangeTest, SenderWaitsForRoomAndNamesWhatWasNotTaken) {
  Workers workers(FlowPlan{});
  for (uint32_t m = 0; m < 2; ++m) {
    ASSERT_TRUE(SendTensor(workers[0], 0, {0, false, m, 0, FlowDirection::kForward}, {1, 10}).ok());
  }
  const absl::Status status =
      workers[0]->Reserve(0, 0, FlowDirection::kForward, absl::Milliseconds(20)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("worker w-1 ()"), HasSubstr("no room for forward boundary 0"),
                    HasSubstr("not taken: forward boundary 0, micro-batch 0 of step 0")));
  // Taken in another order than sent.
  ASSERT_TRUE(
      ReceiveTensor(workers[1], 0, {0, false, 1, 0, FlowDirection::kForward}, {1, 10}).ok());
  EXPECT_TRUE(workers[0]->Reserve(0, 0, FlowDirection::kForward, kWait).ok());
}

TEST(FlowExchangeTest, WrongShapeNamesBothWorkers) {
  Workers workers(FlowPlan{});
  ASSERT_TRUE(SendTensor(workers[0], 0, kFirst, {2, 10}).ok());
  const absl::Status status = workers[1]->Receive(0, kFirst, {3, 10}, kWait).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "from worker w-0 () to worker w-1 (): forward boundary 0, micro-batch 0 of step 0: "
            "found [2, 10], expected [3, 10]");
}

TEST(FlowExchangeTest, WhatDoesNotComeIsNamed) {
  Workers workers(FlowPlan{});
  const absl::Status status =
      workers[1]->Receive(0, kFirst, {3, 10}, absl::Milliseconds(10)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(),
            "worker w-0 (): forward boundary 0, micro-batch 0 of step 0 has not come for 10ms");
}

TEST(FlowExchangeTest, MisuseByALaneIsRefused) {
  FlowPlan flow;
  flow.lanes = 2;
  Workers workers(flow);
  const auto message = [](const absl::Status& status) { return std::string(status.message()); };
  FloatBuffer buffer = workers[0]->Reserve(0, 0, FlowDirection::kForward, kWait).value();
  EXPECT_THAT(message(workers[0]->Send(1, kFirst, {1, 10}, buffer)), HasSubstr("expected 0"));
  EXPECT_THAT(message(workers[0]->Send(0, kFirst, {4, 10}, buffer)),
              HasSubstr("found [4, 10], expected at most [3, 10]"));
  EXPECT_THAT(message(workers[0]->Send(0, kFirst, {1, 9}, buffer)), HasSubstr("found [1, 9]"));
  EXPECT_THAT(message(workers[1]->Send(0, kFirst, {1, 10}, buffer)), HasSubstr("sender: found"));
  EXPECT_THAT(message(workers[0]->Send(0, {0, false, 1, 0, FlowDirection::kForward}, {1, 10},
                                       FloatBuffer())),
              HasSubstr("buffer of 0 elements"));
  ASSERT_TRUE(workers[0]->Send(0, kFirst, {1, 10}, buffer).ok());
  EXPECT_EQ(workers[0]->Send(0, kFirst, {1, 10}, buffer).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message(workers[1]->Reserve(0, 0, FlowDirection::kForward, kWait).status()),
              HasSubstr("as its sender"));
  EXPECT_THAT(message(workers[0]->Reserve(2, 0, FlowDirection::kForward, kWait).status()),
              HasSubstr("lane: found 2"));
  EXPECT_THAT(message(workers[0]->Receive(0, kFirst, {1, 10}, kWait).status()),
              HasSubstr("as its receiver"));
  EXPECT_THAT(message(workers[1]->Receive(1, kFirst, {1, 10}, kWait).status()),
              HasSubstr("expected lane 0"));
}

TEST(FlowExchangeTest, StopWakesEveryoneNowAndLater) {
  Workers workers(FlowPlan{});
  std::thread stopper([&] {
    absl::SleepFor(absl::Milliseconds(20));
    workers[1]->Stop();
  });
  EXPECT_TRUE(absl::IsCancelled(workers[1]->Receive(0, kFirst, {1, 10}, kWait).status()));
  EXPECT_TRUE(
      absl::IsCancelled(workers[1]->Reserve(0, 0, FlowDirection::kBackward, kWait).status()));
  stopper.join();
  EXPECT_EQ(workers[1]->Close(kWait), absl::OkStatus());
  EXPECT_TRUE(workers.failures().empty());
}

TEST(FlowExchangeTest, FailureIsToldOnceAndEndsEveryCall) {
  Workers workers(FlowPlan{});
  std::thread failing([&] {
    absl::SleepFor(absl::Milliseconds(20));
    workers.network().Fail(1, absl::UnavailableError("worker w-0 (): gone"));
    workers.network().Fail(1, absl::InternalError("later"));
  });
  const absl::Status expected = absl::UnavailableError("worker w-0 (): gone");
  EXPECT_EQ(workers[1]->Receive(0, kFirst, {1, 10}, kWait).status(), expected);
  failing.join();
  workers[1]->Stop();
  EXPECT_EQ(workers[1]->Reserve(0, 0, FlowDirection::kBackward, kWait).status(), expected);
  EXPECT_EQ(workers[1]->Close(kWait), expected);
  EXPECT_EQ(workers.failures(), std::vector<absl::Status>{expected});
}

TEST(FlowExchangeTest, CloseLetsTheLastTensorThrough) {
  Workers workers(FlowPlan{});
  ASSERT_TRUE(SendTensor(workers[0], 0, kFirst, {3, 10}).ok());
  std::thread closer([&] { EXPECT_EQ(workers[0]->Close(kWait), absl::OkStatus()); });
  EXPECT_EQ(ReceiveTensor(workers[1], 0, kFirst, {3, 10}), absl::OkStatus());
  closer.join();
  EXPECT_EQ(workers[1]->Close(kWait), absl::OkStatus());
}

TEST(FlowExchangeTest, MemoryThatCannotBeHadIsSaidAtOnce) {
  v1::Plan plan = MakePlan({});
  PipelineLinkOptions options;
  options.plan = &plan;
  options.max_rows = uint64_t{1} << 60;
  EXPECT_EQ(FlowExchange::Create(options).status().code(), absl::StatusCode::kResourceExhausted);
  options.max_rows = uint64_t{1} << 62;
  EXPECT_EQ(FlowExchange::Create(options).status().code(), absl::StatusCode::kResourceExhausted);
  options.max_rows = 1;
  plan.set_credits(0);
  EXPECT_EQ(FlowExchange::Create(options).status().message(),
            "plan.credits: found 0, expected at least 1");
}

// What may come to worker 1 of two, and what may not.
class FrameTest : public ::testing::Test {
 protected:
  class NoCarrier final : public FlowCarrier {
   public:
    void Wake() override {}
    void End(const absl::Status& /*error*/) override {}
  };

  FrameTest() : plan_(MakePlan({})) {
    PipelineLinkOptions options;
    options.plan = &plan_;
    options.worker = 1;
    options.max_rows = 3;
    exchange_ = FlowExchange::Create(options).value();
    stream_ = exchange_->OpenStream(0, carrier_).value();
  }

  static v1::FrameHeader Activation(uint32_t micro_batch, uint64_t rows) {
    v1::FrameHeader header;
    header.set_job(7);
    header.set_generation(2);
    header.set_source(0);
    header.set_kind(v1::FRAME_KIND_ACTIVATION);
    header.set_encoding(v1::ENCODING_FP32);
    header.set_micro_batch(micro_batch);
    header.set_rows(rows);
    header.set_columns(10);
    header.set_element_count(rows * 10);
    return header;
  }

  absl::Status Come(const v1::FrameHeader& header) {
    const FloatBuffer buffer = FloatBuffer::Allocate(header.element_count()).value();
    return exchange_->OnFrame(0, stream_, header,
                              SlicePayload::FromFloats(buffer, 0, header.element_count()));
  }

  const v1::Plan plan_;
  const std::shared_ptr<NoCarrier> carrier_ = std::make_shared<NoCarrier>();
  std::shared_ptr<FlowExchange> exchange_;
  uint64_t stream_ = 0;
};

TEST_F(FrameTest, TensorThatWasTakenIsAnsweredAgainAndOneThatIsHereDropped) {
  ASSERT_TRUE(Come(Activation(0, 2)).ok());
  EXPECT_FALSE(exchange_->NextFrame(0, stream_).has_value());
  ASSERT_TRUE(Come(Activation(0, 2)).ok());
  EXPECT_FALSE(exchange_->NextFrame(0, stream_).has_value());
  ASSERT_TRUE(exchange_->Receive(0, kFirst, {2, 10}, kWait).ok());
  for (int i = 0; i < 2; ++i) {
    const auto frame = exchange_->NextFrame(0, stream_);
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->header.kind(), v1::FRAME_KIND_TAKEN);
    EXPECT_FALSE(frame->header.backward());
    EXPECT_EQ(frame->header.source(), 1);
    // Sent once more because the first answer was lost.
    if (i == 0) {
      ASSERT_TRUE(Come(Activation(0, 2)).ok());
    }
  }
  EXPECT_FALSE(exchange_->NextFrame(0, stream_).has_value());
}

TEST_F(FrameTest, FramesOfAStreamThatWasReplacedCountNoMore) {
  const uint64_t newer = exchange_->OpenStream(0, carrier_).value();
  ASSERT_TRUE(Come(Activation(0, 2)).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      exchange_->Receive(0, kFirst, {2, 10}, absl::ZeroDuration()).status()));
  stream_ = newer;
  ASSERT_TRUE(Come(Activation(0, 2)).ok());
  EXPECT_TRUE(exchange_->Receive(0, kFirst, {2, 10}, absl::ZeroDuration()).ok());
}

TEST_F(FrameTest, MoreThanCreditsFails) {
  ASSERT_TRUE(Come(Activation(0, 1)).ok());
  ASSERT_TRUE(Come(Activation(1, 1)).ok());
  const absl::Status status = Come(Activation(2, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(exchange_->failure(), status);
  EXPECT_EQ(exchange_->Receive(0, kFirst, {1, 10}, kWait).status(), status);
}

TEST_F(FrameTest, FramesThatDoNotFitFailAndNameBothWorkers) {
  using Spoil = std::function<void(v1::FrameHeader*)>;
  const std::vector<std::pair<Spoil, std::string>> bad = {
      {[](auto* h) { h->set_job(8); }, "job: found 8, expected 7"},
      {[](auto* h) { h->set_generation(1); }, "generation: found 1, expected 2"},
      {[](auto* h) { h->set_source(1); }, "source: found 1, expected 0"},
      {[](auto* h) { h->set_kind(v1::FRAME_KIND_ACTIVATION_GRADIENT); },
       "kind: found FRAME_KIND_ACTIVATION_GRADIENT, expected FRAME_KIND_ACTIVATION or"},
      {[](auto* h) { h->set_kind(v1::FRAME_KIND_TAKEN); }, "found TAKEN of it on this stream"},
      {[](auto* h) { h->set_encoding(v1::ENCODING_UINT32); },
       "encoding: found ENCODING_UINT32, expected ENCODING_FP32"},
      {[](auto* h) { h->set_boundary(1); }, "boundary: found 1"},
      {[](auto* h) { h->set_micro_batch(8); }, "micro_batch: found 8"},
      {[](auto* h) { h->set_columns(9); }, "shape: found [2, 9], expected at most [3, 10]"},
      {[](auto* h) { h->set_rows(4); }, "shape: found [4, 10], expected at most [3, 10]"},
      {[](auto* h) { h->set_element_count(21); }, "a piece of 21 elements from 0"},
      {[](auto* h) { h->set_first_element(1); }, "a piece of 20 elements from 1"},
      {[](auto* h) { h->set_element_count(0); }, "a piece of 0 elements from 0"},
  };
  for (const auto& [spoil, message] : bad) {
    SCOPED_TRACE(message);
    PipelineLinkOptions options;
    options.plan = &plan_;
    options.worker = 1;
    options.max_rows = 3;
    exchange_ = FlowExchange::Create(options).value();
    stream_ = exchange_->OpenStream(0, carrier_).value();
    v1::FrameHeader header = Activation(0, 2);
    spoil(&header);
    const absl::Status status = Come(header);
    // Another job's frames are nobody's business here.
    EXPECT_EQ(status.code(), header.generation() == 1 ? absl::StatusCode::kAborted
                             : header.job() != 7      ? absl::StatusCode::kPermissionDenied
                                                      : absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(message), HasSubstr("from worker w-0 () to worker w-1 ()")));
    EXPECT_EQ(exchange_->failure(), status);
  }
}

TEST_F(FrameTest, HellosThatDoNotFitAreRefused) {
  PipelineLinkOptions options;
  options.plan = &plan_;
  options.max_rows = 3;
  const auto peer = FlowExchange::Create(options).value();
  v1::FrameHeader header = peer->Hello().header;
  v1::StreamHello hello;
  hello.set_protocol_version(kProtocolVersion);
  hello.set_schema_hash(0x5a5a);
  hello.set_worker("w-0");
  hello.set_incarnation(100);
  EXPECT_EQ(exchange_->CheckHello(header, hello).value(), 0);
  const auto code = [&](const std::function<void(v1::FrameHeader*, v1::StreamHello*)>& spoil) {
    v1::FrameHeader spoilt_header = header;
    v1::StreamHello spoilt = hello;
    spoil(&spoilt_header, &spoilt);
    return exchange_->CheckHello(spoilt_header, spoilt).status().code();
  };
  using Code = absl::StatusCode;
  EXPECT_EQ(code([](auto* f, auto*) { f->set_generation(3); }), Code::kAborted);
  EXPECT_EQ(code([](auto*, auto* h) { h->set_incarnation(99); }), Code::kAborted);
  EXPECT_EQ(code([](auto*, auto* h) { h->set_schema_hash(1); }), Code::kFailedPrecondition);
  EXPECT_EQ(code([](auto*, auto* h) { h->set_protocol_version(0); }), Code::kFailedPrecondition);
  EXPECT_EQ(code([](auto*, auto* h) { h->set_worker("w-9"); }), Code::kInvalidArgument);
  EXPECT_EQ(code([](auto* f, auto*) { f->set_source(1); }), Code::kInvalidArgument);
}

TEST_F(FrameTest, WhatWasTakenIsSaidAgainOnANewStream) {
  ASSERT_EQ(Come(Activation(0, 1)), absl::OkStatus());
  ASSERT_TRUE(exchange_->Receive(0, kFirst, {1, 10}, kWait).ok());
  const auto soon = [] { return Clock::Real().Steady() + absl::Milliseconds(20); };
  EXPECT_FALSE(exchange_->AwaitTaken(soon()));
  EXPECT_EQ(exchange_->NextFrame(0, stream_)->header.kind(), v1::FRAME_KIND_TAKEN);
  EXPECT_TRUE(exchange_->AwaitTaken(soon()));
  EXPECT_FALSE(exchange_->AwaitStreamsOver(soon()));
  exchange_->CloseStream(0, stream_, false);
  EXPECT_FALSE(exchange_->AwaitTaken(soon()));
  EXPECT_FALSE(exchange_->AwaitStreamsOver(soon()));
  stream_ = exchange_->OpenStream(0, carrier_).value();
  EXPECT_EQ(exchange_->NextFrame(0, stream_)->header.kind(), v1::FRAME_KIND_TAKEN);
  EXPECT_FALSE(exchange_->NextFrame(0, stream_).has_value());
  EXPECT_TRUE(exchange_->AwaitTaken(soon()));
  exchange_->CloseStream(0, stream_, true);
  EXPECT_TRUE(exchange_->AwaitStreamsOver(soon()));
}

TEST_F(FrameTest, ACallAfterTheEndLearnsIt) {
  exchange_->Close();
  EXPECT_TRUE(
      absl::IsCancelled(exchange_->Reserve(0, 0, FlowDirection::kBackward, kWait).status()));
}

}  // namespace
}  // namespace sangam
