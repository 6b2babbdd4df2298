#include "common/rpc/client_stream.h"

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/rpc/completion_queue_thread.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/stream_handler.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/stream_harness.h"

namespace sangam {
namespace {

class ClientStreamTest : public ::testing::Test {
 protected:
  ClientStreamTest() : server_([this](const std::shared_ptr<ServerStream>&) { return peer_; }) {
    thread_.Start();
  }

  std::shared_ptr<ClientStream> Start(const std::string& address,
                                      const std::string& method = kRawMethod) {
    return ClientStream::Start(CreateDataChannel(address, 1 << 20), method, thread_.queue(),
                               handler_);
  }

  std::shared_ptr<NotingHandler> peer_ = std::make_shared<NotingHandler>();
  std::shared_ptr<NotingHandler> handler_ = std::make_shared<NotingHandler>();
  RawStreamServer server_;
  CompletionQueueThread thread_{std::make_unique<grpc::CompletionQueue>()};
};

TEST_F(ClientStreamTest, SendsAndReceivesInOrder) {
  std::vector<std::string> to_server;
  std::vector<std::string> to_client;
  for (int i = 0; i < 40; ++i) {
    to_server.push_back("up" + std::string(i * 1000, 'u'));
    to_client.push_back("down" + std::string(i * 2000, 'd'));
    handler_->Queue(to_server.back());
    peer_->Queue(to_client.back());
  }
  const auto stream = Start(server_.address());
  ASSERT_TRUE(handler_->WaitForMessages(40));
  ASSERT_TRUE(peer_->WaitForMessages(40));
  EXPECT_EQ(handler_->messages(), to_client);
  EXPECT_EQ(peer_->messages(), to_server);
  handler_->Queue("later");
  stream->Wake();
  ASSERT_TRUE(peer_->WaitForMessages(41));
  stream->HalfClose();
  EXPECT_EQ(handler_->WaitForEnd(), absl::OkStatus());
  EXPECT_EQ(peer_->WaitForEnd(), absl::OkStatus());
}

TEST_F(ClientStreamTest, ManyThreadsMayWakeAtOnce) {
  const auto stream = Start(server_.address());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, &stream] {
      for (int i = 0; i < 200; ++i) {
        handler_->Queue("x");
        stream->Wake();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(peer_->WaitForMessages(800));
  stream->HalfClose();
  EXPECT_EQ(handler_->WaitForEnd(), absl::OkStatus());
}

TEST_F(ClientStreamTest, NothingListensIsUnavailable) {
  const auto stream = Start("127.0.0.1:1");
  stream->Wake();
  ASSERT_TRUE(handler_->WaitForEnd().has_value());
  EXPECT_EQ(handler_->WaitForEnd()->code(), absl::StatusCode::kUnavailable);
}

TEST_F(ClientStreamTest, UnknownMethodIsUnimplemented) {
  const auto stream = Start(server_.address(), "/sangam.v1.ParameterService/Nothing");
  ASSERT_TRUE(handler_->WaitForEnd().has_value());
  EXPECT_EQ(handler_->WaitForEnd()->code(), absl::StatusCode::kUnimplemented);
}

TEST_F(ClientStreamTest, ServersErrorIsHeard) {
  peer_->RefuseMessage("bad", absl::DataLossError("spoilt"));
  handler_->Queue("bad");
  for (int i = 0; i < 100; ++i) handler_->Queue(std::string(100'000, 'x'));
  const auto stream = Start(server_.address());
  EXPECT_EQ(handler_->WaitForEnd(), absl::DataLossError("spoilt"));
}

TEST_F(ClientStreamTest, OwnHandlersErrorCancelsTheCall) {
  handler_->RefuseMessage("bad", absl::InternalError("no room"));
  peer_->Queue("bad");
  peer_->Queue("more");
  const auto stream = Start(server_.address());
  EXPECT_EQ(handler_->WaitForEnd(), absl::InternalError("no room"));
  EXPECT_EQ(handler_->messages().front(), "bad");
  EXPECT_TRUE(peer_->WaitForEnd().has_value());
}

TEST_F(ClientStreamTest, CancelEndsWithItsReason) {
  const auto stream = Start(server_.address());
  ASSERT_TRUE(handler_->WaitForOpen());
  stream->Cancel(absl::DeadlineExceededError("too late"));
  EXPECT_EQ(handler_->WaitForEnd(), absl::DeadlineExceededError("too late"));
  EXPECT_TRUE(peer_->WaitForEnd().has_value());
  stream->Cancel(absl::AbortedError("it is over"));
}

TEST_F(ClientStreamTest, FirstReasonToCancelCounts) {
  // Nothing completes before the thread starts.
  CompletionQueueThread thread(std::make_unique<grpc::CompletionQueue>());
  const auto stream = ClientStream::Start(CreateDataChannel(server_.address(), 1), kRawMethod,
                                          thread.queue(), handler_);
  stream->Cancel(absl::DeadlineExceededError("too late"));
  stream->Cancel(absl::AbortedError("again"));
  thread.Start();
  EXPECT_EQ(handler_->WaitForEnd(), absl::DeadlineExceededError("too late"));
}

TEST_F(ClientStreamTest, EndsAndHalfClosesRightAfterTheStart) {
  // A call may reach the server after the client has gone on to the next.
  const RawStreamServer server([](const auto&) { return std::make_shared<NotingHandler>(); });
  for (int i = 0; i < 20; ++i) {
    handler_ = std::make_shared<NotingHandler>();
    const auto stream = Start(server.address());
    if (i % 2 == 0) {
      stream->HalfClose();
    } else {
      stream->Cancel(absl::AbortedError("at once"));
    }
    ASSERT_TRUE(handler_->WaitForEnd().has_value());
    EXPECT_EQ(handler_->WaitForEnd()->ok(), i % 2 == 0);
  }
}

TEST_F(ClientStreamTest, MemoryIsFreeWhenTheMessageHasGoneOut) {
  FloatBuffer buffer = FloatBuffer::Allocate(100'000).value();
  handler_->Queue("prefix", SlicePayload::FromFloats(buffer, 0, buffer.size()));
  EXPECT_FALSE(buffer.unique());
  const auto stream = Start(server_.address());
  ASSERT_TRUE(peer_->WaitForMessages(1));
  EXPECT_EQ(peer_->messages()[0].size(), 6 + 400'000);
  stream->HalfClose();
  ASSERT_TRUE(handler_->WaitForEnd().has_value());
  // Everything that could hold it has ended with the thread.
  thread_.Shutdown();
  EXPECT_TRUE(buffer.unique());
}

}  // namespace
}  // namespace sangam
