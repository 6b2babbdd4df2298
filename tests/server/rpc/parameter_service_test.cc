#include "server/rpc/parameter_service.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/refusal_counts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/runtime/parameter_shard.h"
#include "server/runtime/shard_table.h"
#include "tests/testing/parameter_server.h"
#include "tests/testing/wire_client.h"
#include "tests/testing/wire_job.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

// A server with one job: segment 0 has pages of 64 and 36 elements, segment 1 one of 5000.
class ParameterServiceTest : public ::testing::Test {
 protected:
  ParameterServiceTest() {
    WireJob job;
    job.segments = {100, 5000};
    job.page_elements = 64;
    job.generation = 3;
    job.shares = 4;
    assignment_ = MakeAssignment(job);
    options_.page_elements = 5000;
    options_.check_interval = absl::Milliseconds(20);
  }

  void StartServer() {
    ASSERT_EQ(table_.Reconcile({assignment_}).size(), 1);
    table_.Reconcile({Running(assignment_)});
    server_ = ParameterServer::Start(options_, [this](uint64_t job) { return table_.Find(job); });
    ASSERT_NE(server_, nullptr);
  }

  const v1::Plan& plan() const { return assignment_.plan(); }

  // A whole life of a stream, to see that the server is well.
  void ExpectServerAlive() {
    WireClient client(server_->address());
    ASSERT_TRUE(client.Write(HelloFrame(plan())));
    ASSERT_TRUE(client.Write(SubscribeFrame(plan(), 0, 0)));
    ASSERT_TRUE(client.Read().has_value());
    ASSERT_TRUE(client.Read().has_value());
    client.HalfClose();
    EXPECT_TRUE(client.Finish().ok());
  }

  v1::Assignment assignment_;
  ParameterService::Options options_;
  ShardTable table_{"server-0"};
  std::unique_ptr<ParameterServer> server_;
};

TEST_F(ParameterServiceTest, SubscriberGetsTheWeightsThatThereAre) {
  StartServer();
  WireClient client(server_->address());
  ASSERT_TRUE(client.Write(HelloFrame(plan())));
  ASSERT_TRUE(client.Write(SubscribeFrame(plan(), 0, 0)));
  const std::vector<PageWeights> weights = (*table_.Find(plan().job()))->ReadWeights();
  for (int page = 0; page < 2; ++page) {
    const std::optional<v1::TensorFrame> frame = client.Read();
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->header().SerializeAsString(), weights[page].header.SerializeAsString());
    std::string elements(weights[page].elements.size(), '\0');
    weights[page].elements.CopyTo(elements.data());
    EXPECT_EQ(frame->payload(), elements);
    EXPECT_EQ(frame->header().kind(), v1::FRAME_KIND_WEIGHTS);
    EXPECT_EQ(frame->header().first_element(), page == 0 ? 0 : 64);
    EXPECT_EQ(frame->header().element_count(), page == 0 ? 64 : 36);
  }
}

TEST_F(ParameterServiceTest, GradientIsAnsweredWithTheNextWeights) {
  StartServer();
  WireClient client(server_->address());
  ASSERT_TRUE(client.Write(HelloFrame(plan())));
  ASSERT_TRUE(client.Write(SubscribeFrame(plan(), 0, 0)));
  std::vector<float> expected = BytesToFloats(client.Read()->payload());
  ASSERT_TRUE(client.Read().has_value());
  for (uint64_t step = 0; step < 3; ++step) {
    std::vector<float> gradient(64);
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = 0.1f * static_cast<float>(i + step);
    ASSERT_TRUE(client.Write(GradientFrame(plan(), 0, 0, step, gradient)));
    const std::optional<v1::TensorFrame> frame = client.Read();
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->header().step(), step + 1);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] -= 0.5f * (gradient[i] / 10.0f);
    EXPECT_EQ(BytesToFloats(frame->payload()), expected);
  }
  client.HalfClose();
  EXPECT_TRUE(client.Finish().ok());
}

TEST_F(ParameterServiceTest, ClientThatHalfClosesAtOnceStillGetsWhatItAskedFor) {
  StartServer();
  WireClient client(server_->address());
  ASSERT_TRUE(client.Write(HelloFrame(plan())));
  ASSERT_TRUE(client.Write(SubscribeFrame(plan(), 1, 0)));
  client.HalfClose();
  uint64_t elements = 0;
  while (const std::optional<v1::TensorFrame> frame = client.Read()) {
    elements += frame->header().element_count();
  }
  EXPECT_EQ(elements, 5000);
  EXPECT_TRUE(client.Finish().ok());
}

struct BadStream {
  std::string name;
  // The frames, given good ones to spoil.
  std::function<std::vector<v1::TensorFrame>(const v1::Plan&)> frames;
  absl::StatusCode code;
  std::string message;
};

std::vector<v1::TensorFrame> Spoiled(v1::TensorFrame hello, v1::TensorFrame frame,
                                     const std::function<void(v1::TensorFrame&)>& spoil) {
  spoil(frame);
  return {std::move(hello), std::move(frame)};
}

BadStream BadHello(const std::string& name, const std::function<void(v1::TensorFrame&)>& spoil,
                   absl::StatusCode code, const std::string& message) {
  return {name,
          [spoil](const v1::Plan& plan) {
            v1::TensorFrame hello = HelloFrame(plan);
            spoil(hello);
            return std::vector<v1::TensorFrame>{hello};
          },
          code, message};
}

BadStream BadGradient(const std::string& name, const std::function<void(v1::TensorFrame&)>& spoil,
                      absl::StatusCode code, const std::string& message) {
  return {name,
          [spoil](const v1::Plan& plan) {
            return Spoiled(HelloFrame(plan),
                           GradientFrame(plan, 0, 64, 0, std::vector<float>(36, 1.0f)), spoil);
          },
          code, message};
}

BadStream BadSubscribe(const std::string& name, const std::function<void(v1::TensorFrame&)>& spoil,
                       absl::StatusCode code, const std::string& message) {
  return {name,
          [spoil](const v1::Plan& plan) {
            return Spoiled(HelloFrame(plan), SubscribeFrame(plan, 0, 0), spoil);
          },
          code, message};
}

void SpoilHello(v1::TensorFrame& frame, const std::function<void(v1::StreamHello&)>& spoil) {
  v1::StreamHello hello;
  ASSERT_TRUE(hello.ParseFromString(frame.payload()));
  spoil(hello);
  frame.set_payload(hello.SerializeAsString());
}

std::vector<BadStream> BadStreams() {
  using Frame = v1::TensorFrame;
  const auto invalid = absl::StatusCode::kInvalidArgument;
  return {
      BadHello(
          "NoHello", [](Frame& f) { f.mutable_header()->set_kind(v1::FRAME_KIND_SUBSCRIBE); },
          invalid, "frame 1 of the stream: kind: found FRAME_KIND_SUBSCRIBE"),
      BadHello(
          "NoHeader", [](Frame& f) { f.clear_header(); }, invalid, "frame, byte 0: found field 15"),
      BadHello(
          "HelloOfGarbage", [](Frame& f) { f.set_payload("\xff\xff"); }, invalid,
          "payload of HELLO"),
      BadHello(
          "UnknownJob", [](Frame& f) { f.mutable_header()->set_job(99); },
          absl::StatusCode::kNotFound, "job 99"),
      BadHello(
          "OldGeneration", [](Frame& f) { f.mutable_header()->set_generation(2); },
          absl::StatusCode::kAborted, "generation"),
      BadHello(
          "UnknownWorker", [](Frame& f) { f.mutable_header()->set_source(1); }, invalid,
          "source: found 1"),
      BadHello(
          "OtherProtocol",
          [](Frame& f) { SpoilHello(f, [](auto& h) { h.set_protocol_version(77); }); },
          absl::StatusCode::kFailedPrecondition, "protocol version"),
      BadHello(
          "OtherSchema", [](Frame& f) { SpoilHello(f, [](auto& h) { h.set_schema_hash(1); }); },
          absl::StatusCode::kFailedPrecondition, "schema"),
      BadGradient(
          "SecondHello", [](Frame& f) { f.mutable_header()->set_kind(v1::FRAME_KIND_HELLO); },
          invalid, "frame 2 of the stream: kind: found FRAME_KIND_HELLO"),
      BadGradient(
          "Weights", [](Frame& f) { f.mutable_header()->set_kind(v1::FRAME_KIND_WEIGHTS); },
          invalid, "found FRAME_KIND_WEIGHTS"),
      BadGradient(
          "NoKind", [](Frame& f) { f.mutable_header()->clear_kind(); }, invalid,
          "found FRAME_KIND_UNSPECIFIED"),
      BadGradient(
          "UnknownKind",
          [](Frame& f) { f.mutable_header()->set_kind(static_cast<v1::FrameKind>(55)); }, invalid,
          "kind: found 55"),
      BadGradient(
          "OtherJob", [](Frame& f) { f.mutable_header()->set_job(8); },
          absl::StatusCode::kPermissionDenied, "job: found 8, expected 7 as in the HELLO"),
      BadGradient(
          "OtherSource", [](Frame& f) { f.mutable_header()->set_source(5); }, invalid,
          "source: found 5, expected 0 as in the HELLO"),
      BadGradient(
          "OldGenerationLater", [](Frame& f) { f.mutable_header()->set_generation(1); },
          absl::StatusCode::kAborted, "generation"),
      BadGradient(
          "Segment", [](Frame& f) { f.mutable_header()->set_segment(2); }, invalid,
          "segment: found 2"),
      BadGradient(
          "Length", [](Frame& f) { f.mutable_payload()->resize(36 * 4 - 1); }, invalid, "143"),
      BadGradient(
          "ElementCount", [](Frame& f) { f.mutable_header()->set_element_count(35); }, invalid,
          "element_count"),
      BadGradient(
          "OffsetInsideAPage", [](Frame& f) { f.mutable_header()->set_first_element(65); }, invalid,
          "first_element"),
      BadGradient(
          "OffsetBeyondTheEnd", [](Frame& f) { f.mutable_header()->set_first_element(128); },
          invalid, "first_element of segment 0: found 128"),
      BadGradient(
          "OffsetNearTheEndOfNumbers",
          [](Frame& f) { f.mutable_header()->set_first_element(UINT64_MAX - 63); }, invalid,
          "first_element"),
      BadGradient(
          "SpanOutside", [](Frame& f) { f.mutable_header()->set_span_end(5); }, invalid,
          "span: found [0,5)"),
      BadGradient(
          "SpanNoNode",
          [](Frame& f) {
            f.mutable_header()->set_span_begin(1);
            f.mutable_header()->set_span_end(3);
          },
          invalid, "span: found [1,3)"),
      BadGradient(
          "Encoding", [](Frame& f) { f.mutable_header()->clear_encoding(); }, invalid, "encoding"),
      BadGradient(
          "LaterStep", [](Frame& f) { f.mutable_header()->set_step(1); },
          absl::StatusCode::kFailedPrecondition, "step"),
      BadGradient(
          "MessageTooLong", [](Frame& f) { f.mutable_payload()->resize(200 * 1024); },
          absl::StatusCode::kResourceExhausted, "expected at most 85536"),
      BadGradient(
          "MessageTooLongForGrpc", [](Frame& f) { f.mutable_payload()->resize(5 << 20); },
          absl::StatusCode::kResourceExhausted, "larger than max"),
      BadSubscribe(
          "SubscribeWithPayload", [](Frame& f) { f.set_payload("x"); }, invalid,
          "payload of SUBSCRIBE: found 1 bytes"),
      BadSubscribe(
          "SubscribeBeyondTheEnd", [](Frame& f) { f.mutable_header()->set_element_count(101); },
          invalid, "element_count"),
      BadSubscribe(
          "SubscribeToUnknownSegment",
          [](Frame& f) { f.mutable_header()->set_segment(UINT32_MAX); }, invalid, "segment"),
  };
}

class BadStreamTest : public ParameterServiceTest,
                      public ::testing::WithParamInterface<BadStream> {};

TEST_P(BadStreamTest, EndsThatStreamAlone) {
  StartServer();
  const std::vector<PageWeights> before = (*table_.Find(plan().job()))->ReadWeights();
  WireClient witness(server_->address());
  WireClient client(server_->address());
  for (const v1::TensorFrame& frame : GetParam().frames(plan())) client.Write(frame);
  const absl::Status status = client.Finish();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
  ExpectServerAlive();
  ASSERT_TRUE(witness.Write(HelloFrame(plan())));
  witness.HalfClose();
  EXPECT_TRUE(witness.Finish().ok());
  const std::vector<PageWeights> after = (*table_.Find(plan().job()))->ReadWeights();
  EXPECT_EQ(after[1].header.step(), before[1].header.step());
}

INSTANTIATE_TEST_SUITE_P(All, BadStreamTest, ::testing::ValuesIn(BadStreams()),
                         [](const auto& info) { return info.param.name; });

TEST_F(ParameterServiceTest, MessagesThatAreTooLongEndTheirStream) {
  RefusalCounts counts;
  options_.counts = &counts;
  StartServer();
  WireClient client(server_->address());
  ASSERT_TRUE(client.Write(HelloFrame(plan())));
  v1::TensorFrame longer = GradientFrame(plan(), 1, 0, 0, std::vector<float>(5000, 1.0f));
  longer.set_payload(std::string(5000 * sizeof(float) + 64 * 1024, 'x'));
  client.Write(longer);
  const absl::Status end = client.Finish();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted) << end;
  EXPECT_EQ(counts.Get(Refusal::kMessageSize), 1u);
  ExpectServerAlive();
  server_.reset();
}

TEST_F(ParameterServiceTest, StreamOfAJobThatEndsIsEnded) {
  StartServer();
  WireClient client(server_->address());
  ASSERT_TRUE(client.Write(HelloFrame(plan())));
  ASSERT_TRUE(client.Write(SubscribeFrame(plan(), 0, 0)));
  ASSERT_TRUE(client.Read().has_value());
  std::weak_ptr<ParameterShard> shard = *table_.Find(plan().job());
  table_.Reconcile({});
  const absl::Status status = client.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  // Nobody keeps its memory.
  EXPECT_TRUE(shard.expired());
}

TEST_F(ParameterServiceTest, FrameOfAJobThatHasEndedIsRefused) {
  options_.check_interval = absl::Hours(1);
  StartServer();
  WireClient client(server_->address());
  ASSERT_TRUE(client.Write(HelloFrame(plan())));
  ASSERT_TRUE(client.Write(SubscribeFrame(plan(), 0, 0)));
  ASSERT_TRUE(client.Read().has_value());
  table_.Reconcile({});
  client.Write(GradientFrame(plan(), 0, 0, 0, std::vector<float>(64, 1.0f)));
  EXPECT_EQ(client.Finish().code(), absl::StatusCode::kNotFound);
}

TEST_F(ParameterServiceTest, StoppingServerEndsStreamsWithUnavailable) {
  StartServer();
  WireClient open(server_->address());
  ASSERT_TRUE(open.Write(HelloFrame(plan())));
  ASSERT_TRUE(open.Write(SubscribeFrame(plan(), 0, 0)));
  ASSERT_TRUE(open.Read().has_value());
  server_.reset();
  EXPECT_EQ(open.Finish().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ParameterServiceTest, StopsWithoutAServer) {
  ParameterService never_registered(
      options_, [this](uint64_t job) { return table_.Find(job); },
      [this](uint64_t job) { return table_.FindCounter(job); });
  StartServer();
  // The port is taken: the second server's queues have never had a thread.
  EXPECT_EQ(ParameterServer::Start(
                options_, [this](uint64_t job) { return table_.Find(job); }, server_->port()),
            nullptr);
  ExpectServerAlive();
}

}  // namespace
}  // namespace sangam
