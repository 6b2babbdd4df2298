#include "common/rpc/server_stream.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/stream_handler.h"
#include "common/tensor/buffer.h"
#include "common/tensor/frame_codec.h"
#include "common/tensor/slices.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/stream_harness.h"
#include "tests/testing/wire_client.h"

namespace sangam {
namespace {

v1::TensorFrame TextFrame(const std::string& text) {
  v1::TensorFrame frame;
  frame.set_payload(text);
  return frame;
}

std::string Bytes(const std::string& text) { return TextFrame(text).SerializeAsString(); }

// One stream of a plain protobuf client.
class ServerStreamTest : public ::testing::Test {
 protected:
  ServerStreamTest()
      : server_(std::make_unique<RawStreamServer>([this](const auto& stream) {
          MutexLock lock(&mutex_);
          stream_ = stream;
          accepted_.SignalAll();
          return handler_;
        })),
        client_(std::make_unique<WireClient>(server_->address())) {}

  std::shared_ptr<ServerStream> WaitForStream() {
    MutexLock lock(&mutex_);
    while (stream_ == nullptr) accepted_.WaitFor(&mutex_, absl::Seconds(30));
    return std::exchange(stream_, nullptr);
  }

  Mutex mutex_;
  CondVar accepted_;
  std::shared_ptr<ServerStream> stream_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<NotingHandler> handler_ = std::make_shared<NotingHandler>();
  std::unique_ptr<RawStreamServer> server_;
  std::unique_ptr<WireClient> client_;
};

TEST_F(ServerStreamTest, MessagesComeInOrder) {
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(client_->Write(TextFrame(std::to_string(i))));
  ASSERT_TRUE(handler_->WaitForMessages(50));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(handler_->messages()[i], Bytes(std::to_string(i)));
}

TEST_F(ServerStreamTest, SendsWhatIsQueuedWheneverItIsWoken) {
  const std::shared_ptr<ServerStream> stream = WaitForStream();
  for (const std::string text : {"a", "b"}) {
    handler_->Queue(Bytes(text));
    handler_->Queue(Bytes(text + text));
    stream->Wake();
    EXPECT_EQ(client_->Read()->payload(), text);
    EXPECT_EQ(client_->Read()->payload(), text + text);
  }
}

TEST_F(ServerStreamTest, HalfCloseSendsWhatWaitsAndEndsWithOk) {
  const std::shared_ptr<ServerStream> stream = WaitForStream();
  for (int i = 0; i < 20; ++i) handler_->Queue(Bytes(std::string(100'000, 'x')));
  client_->HalfClose();
  ASSERT_TRUE(handler_->WaitForHalfClose());
  int received = 0;
  while (client_->Read().has_value()) ++received;
  EXPECT_EQ(received, 20);
  EXPECT_TRUE(client_->Finish().ok());
  EXPECT_EQ(handler_->WaitForEnd(), absl::OkStatus());
}

TEST_F(ServerStreamTest, HandlersErrorEndsTheStreamWithIt) {
  handler_->RefuseMessage(Bytes("bad"), absl::InvalidArgumentError("what is this?"));
  ASSERT_TRUE(client_->Write(TextFrame("good")));
  ASSERT_TRUE(client_->Write(TextFrame("bad")));
  client_->Write(TextFrame("more"));
  EXPECT_EQ(client_->Finish(), absl::InvalidArgumentError("what is this?"));
  EXPECT_EQ(handler_->WaitForEnd(), absl::InvalidArgumentError("what is this?"));
  EXPECT_EQ(handler_->messages(), (std::vector<std::string>{Bytes("good"), Bytes("bad")}));
}

TEST_F(ServerStreamTest, EndFromOutsideEndsAnIdleStream) {
  WaitForStream()->End(absl::AbortedError("enough"));
  EXPECT_EQ(client_->Finish(), absl::AbortedError("enough"));
  EXPECT_EQ(handler_->WaitForEnd(), absl::AbortedError("enough"));
}

TEST_F(ServerStreamTest, FirstErrorCounts) {
  const std::shared_ptr<ServerStream> stream = WaitForStream();
  // More than any window takes: the status has to wait behind it.
  const FloatBuffer buffer = FloatBuffer::Allocate(8 << 20).value();
  handler_->Queue(EncodeFramePrefix({}, buffer.size() * sizeof(float)),
                  SlicePayload::FromFloats(buffer, 0, buffer.size()));
  stream->Wake();
  stream->End(absl::AbortedError("first"));
  stream->End(absl::InternalError("second"));
  EXPECT_EQ(client_->Finish(), absl::AbortedError("first"));
}

TEST_F(ServerStreamTest, ClientThatGoesAwayEndsTheStream) {
  ASSERT_TRUE(client_->Write(TextFrame("hello")));
  ASSERT_TRUE(handler_->WaitForMessages(1));
  client_->Cancel();
  client_.reset();
  EXPECT_TRUE(handler_->WaitForEnd().has_value());
}

TEST_F(ServerStreamTest, CancelBreaksOffAStreamThatNobodyReads) {
  const std::shared_ptr<ServerStream> stream = WaitForStream();
  // More than any window takes.
  FloatBuffer buffer = FloatBuffer::Allocate(8 << 20).value();
  handler_->Queue("", SlicePayload::FromFloats(buffer, 0, buffer.size()));
  stream->Wake();
  stream->End(absl::AbortedError("never heard"));
  stream->Cancel();
  EXPECT_TRUE(handler_->WaitForEnd().has_value());
  EXPECT_FALSE(client_->Finish().ok());
}

TEST_F(ServerStreamTest, LivesUntilItsOperationsHaveCompletedAndNoLonger) {
  std::shared_ptr<ServerStream> stream = WaitForStream();
  std::weak_ptr<ServerStream> weak = stream;
  stream.reset();
  EXPECT_FALSE(weak.expired());
  ASSERT_TRUE(client_->Write(TextFrame("still here")));
  ASSERT_TRUE(handler_->WaitForMessages(1));
  client_->HalfClose();
  EXPECT_TRUE(client_->Finish().ok());
  ASSERT_TRUE(handler_->WaitForEnd().has_value());
  // The server's end waits for its thread, and with it for the last completion.
  server_.reset();
  EXPECT_TRUE(weak.expired());
  EXPECT_EQ(handler_.use_count(), 1);
}

}  // namespace
}  // namespace sangam
