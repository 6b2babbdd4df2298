#include "worker/rpc/server_connection.h"

#include <grpcpp/completion_queue.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/plan/page_map.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/completion_queue_thread.h"
#include "common/rpc/server_stream.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/tensor.pb.h"
#include "tests/common/rpc/stream_harness.h"
#include "worker/rpc/gradient_ledger.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kWait = absl::Seconds(30);

class NotingOwner : public ConnectionOwner {
 public:
  absl::Status OnWeights(const v1::FrameHeader& header, const SlicePayload& elements) override {
    MutexLock lock(&mutex_);
    weights_.push_back(
        absl::StrCat(header.first_element(), "@", header.step(), "#", elements.size()));
    changed_.SignalAll();
    return absl::OkStatus();
  }
  void OnConnectionEnded(const absl::Status& status) override {
    MutexLock lock(&mutex_);
    EXPECT_FALSE(end_.has_value());
    end_ = status;
    changed_.SignalAll();
  }

  std::optional<absl::Status> WaitForEnd() {
    Wait([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return end_.has_value(); });
    MutexLock lock(&mutex_);
    return end_;
  }
  bool WaitForWeights(size_t count) {
    return Wait([this, count]()
                    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return weights_.size() >= count; });
  }
  std::vector<std::string> weights() {
    MutexLock lock(&mutex_);
    return weights_;
  }

 private:
  bool Wait(const std::function<bool()>& condition) {
    const absl::Duration until = Clock::Real().Steady() + kWait;
    MutexLock lock(&mutex_);
    while (!condition()) {
      const absl::Duration left = until - Clock::Real().Steady();
      if (left <= absl::ZeroDuration()) return false;
      changed_.WaitFor(&mutex_, left);
    }
    return true;
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> weights_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

// A connection to a server whose every stream is a NotingHandler, played by the test.
class ServerConnectionTest : public ::testing::Test {
 protected:
  ServerConnectionTest() {
    options_.server = "s";
    options_.page_elements = 64;
    options_.sender.set_job(7);
    options_.sender.set_generation(2);
    options_.sender.set_source(3);
    options_.hello.set_worker("w");
    options_.backoff = {absl::Milliseconds(1), absl::Milliseconds(10)};
  }
  ~ServerConnectionTest() override {
    if (connection_ != nullptr) connection_->Abandon(absl::CancelledError("test ends"));
    EXPECT_TRUE(activities_.WaitForNone(kWait));
    thread_.Shutdown();
  }

  // Pages of 64 and 36 elements.
  void Open() {
    server_ = std::make_unique<RawStreamServer>([this](const auto& stream) {
      MutexLock lock(&mutex_);
      auto handler = std::make_shared<NotingHandler>();
      if (refusal_.has_value()) stream->End(*refusal_);
      peers_.push_back({handler, stream});
      connected_.SignalAll();
      return handler;
    });
    options_.address = server_->address();
    connection_ = std::make_shared<ServerConnection>(
        options_, GradientLedger({{0, 0, 64, 0}, {0, 64, 36, 0}}, 5, 10), thread_.queue(),
        &activities_, &owner_);
    thread_.Start();
    connection_->Open();
  }

  struct Peer {
    std::shared_ptr<NotingHandler> handler;
    std::shared_ptr<ServerStream> stream;
  };

  // The server's end of stream number `n`.
  Peer WaitForStream(size_t n) {
    const absl::Duration until = Clock::Real().Steady() + kWait;
    MutexLock lock(&mutex_);
    while (peers_.size() <= n && Clock::Real().Steady() < until) {
      connected_.WaitFor(&mutex_, absl::Seconds(1));
    }
    return peers_.at(n);
  }

  // "KIND first+count@step" of the frames that came by a stream.
  static std::vector<std::string> Frames(const Peer& peer) {
    std::vector<std::string> texts;
    for (const std::string& message : peer.handler->messages()) {
      v1::TensorFrame frame;
      EXPECT_TRUE(frame.ParseFromString(message));
      const v1::FrameHeader& header = frame.header();
      EXPECT_EQ(header.job(), 7);
      EXPECT_EQ(header.generation(), 2);
      EXPECT_EQ(header.source(), 3);
      texts.push_back(absl::StrCat(v1::FrameKind_Name(header.kind()).substr(11), " ",
                                   header.first_element(), "+", header.element_count(), "@",
                                   header.step()));
    }
    return texts;
  }

  static v1::TensorFrame Weights(uint64_t first, uint64_t count, uint64_t step) {
    v1::TensorFrame frame;
    frame.mutable_header()->set_kind(v1::FRAME_KIND_WEIGHTS);
    frame.mutable_header()->set_encoding(v1::ENCODING_FP32);
    frame.mutable_header()->set_job(7);
    frame.mutable_header()->set_generation(2);
    frame.mutable_header()->set_first_element(first);
    frame.mutable_header()->set_element_count(count);
    frame.mutable_header()->set_step(step);
    frame.set_payload(std::string(count * sizeof(float), '\0'));
    return frame;
  }

  static void Send(const Peer& peer, const std::string& bytes) {
    peer.handler->Queue(bytes);
    peer.stream->Wake();
  }
  static void Send(const Peer& peer, const v1::TensorFrame& frame) {
    Send(peer, frame.SerializeAsString());
  }

  absl::Status Push(uint64_t step, uint64_t first, uint64_t count) {
    const absl::Status status = connection_->Push({{0, first, count, 0}, step, 0, {0, 1}, 9, sum_});
    connection_->Wake();
    return status;
  }

  ServerConnection::Options options_;
  FloatBuffer sum_ = FloatBuffer::Allocate(100).value();
  NotingOwner owner_;
  ActivityCount activities_;
  CompletionQueueThread thread_{std::make_unique<grpc::CompletionQueue>()};
  Mutex mutex_;
  CondVar connected_;
  std::vector<Peer> peers_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> refusal_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<RawStreamServer> server_;
  std::shared_ptr<ServerConnection> connection_;
};

TEST_F(ServerConnectionTest, SaysHelloSubscribesAndThenPushes) {
  Open();
  ASSERT_TRUE(Push(5, 64, 36).ok());
  const Peer peer = WaitForStream(0);
  ASSERT_TRUE(peer.handler->WaitForMessages(3));
  EXPECT_THAT(Frames(peer), ElementsAre("HELLO 0+0@0", "SUBSCRIBE 0+100@5", "GRADIENT 64+36@5"));
  v1::TensorFrame gradient;
  ASSERT_TRUE(gradient.ParseFromString(peer.handler->messages()[2]));
  EXPECT_EQ(gradient.payload().size(), 144);
  EXPECT_EQ(gradient.header().samples(), 9);
  EXPECT_EQ(gradient.header().span_end(), 1);
  connection_->Close();
  EXPECT_EQ(owner_.WaitForEnd(), absl::OkStatus());
}

TEST_F(ServerConnectionTest, NewStreamGoesOnWhereTheLostOneEnded) {
  Open();
  Peer peer = WaitForStream(0);
  Send(peer, Weights(0, 64, 5));
  Send(peer, Weights(64, 36, 5));
  ASSERT_TRUE(owner_.WaitForWeights(2));
  ASSERT_TRUE(Push(5, 0, 64).ok());
  ASSERT_TRUE(Push(5, 64, 36).ok());
  ASSERT_TRUE(peer.handler->WaitForMessages(4));
  Send(peer, Weights(0, 64, 6));
  ASSERT_TRUE(owner_.WaitForWeights(3));
  peer.stream->End(absl::UnavailableError("the server stops"));
  peer = WaitForStream(1);
  ASSERT_TRUE(peer.handler->WaitForMessages(4));
  EXPECT_THAT(Frames(peer), ElementsAre("HELLO 0+0@0", "SUBSCRIBE 0+64@7", "SUBSCRIBE 64+36@6",
                                        "GRADIENT 64+36@5"));
  // What has come already is not handed on again.
  Send(peer, Weights(0, 64, 6));
  Send(peer, Weights(64, 36, 6));
  ASSERT_TRUE(owner_.WaitForWeights(4));
  EXPECT_THAT(owner_.weights(), ElementsAre("0@5#256", "64@5#144", "0@6#256", "64@6#144"));
  EXPECT_TRUE(sum_.unique());
}

TEST_F(ServerConnectionTest, StreamThatTheServerEndsOrBreaksOffIsOpenedAgain) {
  Open();
  WaitForStream(0).stream->End(absl::CancelledError("broken off"));
  WaitForStream(1).stream->Cancel();
  const Peer peer = WaitForStream(2);
  ASSERT_TRUE(peer.handler->WaitForMessages(2));
  EXPECT_THAT(Frames(peer), ElementsAre("HELLO 0+0@0", "SUBSCRIBE 0+100@5"));
}

TEST_F(ServerConnectionTest, RefusalEndsTheConnection) {
  Open();
  WaitForStream(0).stream->End(absl::NotFoundError("no such job"));
  const std::optional<absl::Status> end = owner_.WaitForEnd();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(end->message(), absl::StrCat("server 's' at ", server_->address(), ": no such job"));
}

TEST_F(ServerConnectionTest, ServerThatNeverWorksIsGivenUpAtTheDeadline) {
  options_.connect_deadline = absl::Milliseconds(100);
  refusal_ = absl::UnavailableError("not now");
  Open();
  const std::optional<absl::Status> end = owner_.WaitForEnd();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(end->message()), HasSubstr("no working stream for "));
  EXPECT_THAT(std::string(end->message()), HasSubstr("not now"));
}

TEST_F(ServerConnectionTest, FramesThatAServerMustNotSendEndTheConnection) {
  const auto spoilt = [](const std::function<void(v1::FrameHeader*)>& spoil) {
    v1::TensorFrame frame = Weights(0, 64, 5);
    spoil(frame.mutable_header());
    return frame.SerializeAsString();
  };
  v1::TensorFrame shorter = Weights(0, 64, 5);
  shorter.mutable_payload()->pop_back();
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"\xff\xff\xff", "frame, byte"},
      {spoilt([](auto* h) { h->set_kind(v1::FRAME_KIND_GRADIENT); }), "expected WEIGHTS"},
      {spoilt([](auto* h) { h->clear_encoding(); }), "expected WEIGHTS in FP32"},
      {spoilt([](auto* h) { h->set_job(8); }), "found weights of job 8"},
      {spoilt([](auto* h) { h->set_generation(1); }), "generation 1"},
      {spoilt([](auto* h) { h->set_segment(1); }), "page of segment 1"},
      {spoilt([](auto* h) { h->set_first_element(32); }), "page of segment 0 from 32"},
      {spoilt([](auto* h) { h->set_element_count(63); }), "found 63 elements in 256 bytes"},
      {shorter.SerializeAsString(), "found 64 elements in 255 bytes"},
  };
  Open();
  size_t number = 0;
  for (const auto& [bytes, message] : bad) {
    SCOPED_TRACE(message);
    NotingOwner owner;
    CompletionQueueThread thread(std::make_unique<grpc::CompletionQueue>());
    thread.Start();
    ActivityCount activities;
    const auto connection = std::make_shared<ServerConnection>(
        options_, GradientLedger({{0, 0, 64, 0}}, 5, 10), thread.queue(), &activities, &owner);
    WaitForStream(number);
    connection->Open();
    Send(WaitForStream(++number), bytes);
    const std::optional<absl::Status> end = owner.WaitForEnd();
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(end->message()), HasSubstr(message));
    EXPECT_THAT(std::string(end->message()), HasSubstr("server 's' at "));
    EXPECT_TRUE(owner.weights().empty());
    ASSERT_TRUE(activities.WaitForNone(kWait));
  }
}

TEST_F(ServerConnectionTest, AbandonEndsWithItsReasonWhateverIsUnderWay) {
  Open();
  WaitForStream(0);
  connection_->Abandon(absl::DeadlineExceededError("enough"));
  EXPECT_EQ(owner_.WaitForEnd(), absl::DeadlineExceededError("enough"));
}

TEST_F(ServerConnectionTest, CloseBetweenTwoTriesEndsAtOnce) {
  options_.backoff = {absl::Hours(1), absl::Hours(1)};
  options_.connect_deadline = absl::Hours(2);
  Open();
  const Peer peer = WaitForStream(0);
  peer.stream->End(absl::UnavailableError("the server stops"));
  ASSERT_TRUE(peer.handler->WaitForEnd().has_value());
  connection_->Close();
  const std::optional<absl::Status> end = owner_.WaitForEnd();
  ASSERT_TRUE(end.has_value());
  // It depends on whether the stream's end had been heard of.
  EXPECT_TRUE(end->ok() || absl::IsUnavailable(*end)) << *end;
}

}  // namespace
}  // namespace sangam
