#include "common/rpc/accepted_stream.h"

#include <grpcpp/support/byte_buffer.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/server_stream.h"
#include "common/tensor/slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/tensor.pb.h"
#include "tests/common/rpc/stream_harness.h"
#include "tests/testing/wire_client.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;

v1::TensorFrame TextFrame(const std::string& text) {
  v1::TensorFrame frame;
  frame.set_payload(text);
  return frame;
}

// Opens with "hello", refuses "bad" and sends what is queued. Waits are bounded.
class TestStream final : public AcceptedStream {
 public:
  TestStream(const AcceptedStreamOptions* options, std::shared_ptr<ServerStream> stream)
      : AcceptedStream(options, {"test stream", "frame", "HELLO", "/test/Stream"},
                       std::move(stream)) {}

  void Queue(std::string payload) {
    {
      MutexLock lock(&mutex_);
      if (!is_open()) return;
      waiting_.push_back(std::move(payload));
    }
    WakeStream();
  }

  // What an open stream's Fault says when nothing has moved for a second.
  void SetFault(const absl::Status& fault) {
    MutexLock lock(&mutex_);
    fault_ = fault;
  }

  bool WaitForMessages(size_t count) {
    MutexLock lock(&mutex_);
    while (messages_.size() < count) {
      if (!changed_.WaitFor(&mutex_, absl::Seconds(30))) return false;
    }
    return true;
  }

  std::optional<absl::Status> WaitForLeave() {
    MutexLock lock(&mutex_);
    while (!left_.has_value()) {
      if (!changed_.WaitFor(&mutex_, absl::Seconds(30))) break;
    }
    return left_;
  }

  std::vector<std::string> messages() {
    MutexLock lock(&mutex_);
    return messages_;
  }
  bool ended() {
    MutexLock lock(&mutex_);
    return has_ended();
  }
  size_t waiting() {
    MutexLock lock(&mutex_);
    return waiting_.size();
  }

  std::optional<grpc::ByteBuffer> NextMessage() override {
    MutexLock lock(&mutex_);
    NoteProgress();
    if (waiting_.empty()) return std::nullopt;
    const std::string bytes = TextFrame(waiting_.front()).SerializeAsString();
    waiting_.pop_front();
    return ToByteBuffer(bytes, SlicePayload());
  }

 private:
  absl::Status OnNext(const grpc::ByteBuffer& message, bool first) override {
    const SlicePayload payload = FromByteBuffer(message).value();
    std::string bytes(payload.size(), '\0');
    payload.CopyTo(bytes.data());
    v1::TensorFrame frame;
    if (!frame.ParseFromString(bytes)) return absl::InternalError("no frame");
    MutexLock lock(&mutex_);
    messages_.push_back(absl::StrCat(first ? "first " : "", frame.payload()));
    changed_.SignalAll();
    if (frame.payload() == "bad") return absl::InvalidArgumentError("bad");
    if (frame.payload() == "hello") Open();
    return absl::OkStatus();
  }

  void DropWaiting() override {
    MutexLock lock(&mutex_);
    waiting_.clear();
  }

  absl::Status Fault(absl::Duration idle) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return idle >= absl::Seconds(1) ? fault_ : absl::OkStatus();
  }

  void Leave(const absl::Status& status) override {
    MutexLock lock(&mutex_);
    left_ = status;
    changed_.SignalAll();
  }

  std::string LogFields() const override { return absl::StrCat("frames=", num_messages()); }

  CondVar changed_;
  std::vector<std::string> messages_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> waiting_ ABSL_GUARDED_BY(mutex_);
  absl::Status fault_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> left_ ABSL_GUARDED_BY(mutex_);
};

// One stream of a plain protobuf client; the tests are the clock that calls Check.
class AcceptedStreamTest : public ::testing::Test {
 protected:
  AcceptedStreamTest() : registry_(10) {
    options_.registry = &registry_;
    options_.activities = &activities_;
    options_.hello_deadline = absl::Seconds(10);
    options_.end_grace = absl::Seconds(5);
    server_ = std::make_unique<RawStreamServer>([this](const auto& stream) {
      activities_.Begin();
      auto accepted = std::make_shared<TestStream>(&options_, stream);
      EXPECT_TRUE(registry_.Add(accepted).ok());
      MutexLock lock(&mutex_);
      accepted_ = accepted;
      changed_.SignalAll();
      return accepted;
    });
    // Longer than anything is waited for: no stream ends by itself.
    client_ = std::make_unique<WireClient>(server_->address(), absl::Seconds(100));
  }

  std::shared_ptr<TestStream> WaitForStream() {
    MutexLock lock(&mutex_);
    while (accepted_ == nullptr) changed_.WaitFor(&mutex_, absl::Seconds(30));
    return accepted_;
  }

  std::shared_ptr<TestStream> OpenStream() {
    EXPECT_TRUE(client_->Write(TextFrame("hello")));
    const std::shared_ptr<TestStream> stream = WaitForStream();
    EXPECT_TRUE(stream->WaitForMessages(1));
    return stream;
  }

  // More than any window takes, for a client that does not read.
  static std::string Cork() { return std::string(size_t{32} << 20, 'x'); }

  CallRegistry registry_;
  ActivityCount activities_;
  AcceptedStreamOptions options_;
  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<TestStream> accepted_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<RawStreamServer> server_;
  std::unique_ptr<WireClient> client_;
};

TEST_F(AcceptedStreamTest, HalfCloseSendsWhatWaitsAndEndsWithOk) {
  const auto stream = OpenStream();
  EXPECT_TRUE(client_->Write(TextFrame("more")));
  stream->Queue("a");
  stream->Queue("b");
  client_->HalfClose();
  EXPECT_EQ(client_->Read()->payload(), "a");
  EXPECT_EQ(client_->Read()->payload(), "b");
  EXPECT_TRUE(client_->Finish().ok());
  EXPECT_EQ(stream->WaitForLeave(), absl::OkStatus());
  EXPECT_THAT(stream->messages(), ElementsAre("first hello", "more"));
  // The stream gives back what it held.
  EXPECT_TRUE(activities_.WaitForNone(absl::Seconds(30)));
  stream->Queue("late");
  EXPECT_EQ(stream->waiting(), 0u);
}

TEST_F(AcceptedStreamTest, ErrorOfAMessageEndsTheStreamAndSaysWhichOne) {
  const auto stream = OpenStream();
  EXPECT_TRUE(client_->Write(TextFrame("bad")));
  const absl::Status expected = absl::InvalidArgumentError("frame 2 of the stream: bad");
  EXPECT_EQ(client_->Finish(), expected);
  EXPECT_EQ(stream->WaitForLeave(), expected);
}

TEST_F(AcceptedStreamTest, EndDropsWhatWaitsAndTakesNoMore) {
  const auto stream = OpenStream();
  stream->Queue(Cork());
  stream->Queue("a");
  stream->Queue("b");
  stream->End(absl::AbortedError("enough"));
  EXPECT_EQ(stream->waiting(), 0u);
  stream->Queue("c");
  EXPECT_EQ(stream->waiting(), 0u);
  EXPECT_EQ(client_->Finish(), absl::AbortedError("enough"));
}

TEST_F(AcceptedStreamTest, StreamWithoutFirstMessageIsEndedAtTheDeadline) {
  const auto stream = WaitForStream();
  stream->Check(absl::Seconds(100));
  stream->Check(absl::Seconds(109));
  EXPECT_FALSE(stream->ended());
  stream->Check(absl::Seconds(110));
  EXPECT_EQ(client_->Finish(),
            absl::DeadlineExceededError("found no HELLO, expected one within 10s"));
}

TEST_F(AcceptedStreamTest, FaultCountsWhenNothingHasMoved) {
  const auto stream = OpenStream();
  stream->Check(absl::Seconds(100));
  stream->SetFault(absl::ResourceExhaustedError("stalled"));
  EXPECT_TRUE(client_->Write(TextFrame("alive")));
  ASSERT_TRUE(stream->WaitForMessages(2));
  // A message since the last look, so that the second begins here.
  stream->Check(absl::Seconds(101));
  EXPECT_TRUE(client_->Write(TextFrame("alive")));
  ASSERT_TRUE(stream->WaitForMessages(3));
  stream->Check(absl::Seconds(102));
  EXPECT_FALSE(stream->ended());
  stream->Check(absl::Seconds(103));
  EXPECT_EQ(client_->Finish(), absl::ResourceExhaustedError("stalled"));
  EXPECT_EQ(stream->messages().size(), 3u);
}

TEST_F(AcceptedStreamTest, ErrorForAClientThatDoesNotReadIsBrokenOffAfterTheGrace) {
  const auto stream = OpenStream();
  stream->Queue(Cork());
  stream->End(absl::AbortedError("enough"));
  stream->Check(absl::Seconds(100));
  stream->Check(absl::Seconds(105));
  // The status could not get through.
  EXPECT_EQ(stream->WaitForLeave(), absl::AbortedError("enough"));
  EXPECT_FALSE(client_->Finish().ok());
}

}  // namespace
}  // namespace sangam
