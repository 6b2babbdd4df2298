#include "common/rpc/write_pump.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/rpc/byte_buffer.h"
#include "common/tensor/slices.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

// Notes what the pump does, in order.
class NotingPort : public WritePump::Port {
 public:
  std::optional<grpc::ByteBuffer> NextMessage() override {
    ++asked;
    if (before_answer) std::exchange(before_answer, nullptr)();
    if (queue.empty()) {
      if (after_empty) std::exchange(after_empty, nullptr)();
      return std::nullopt;
    }
    const std::string text = queue.front();
    queue.pop_front();
    return ToByteBuffer(text, SlicePayload());
  }
  void PostWrite(const grpc::ByteBuffer& message) override {
    std::string text(message.Length(), '\0');
    FromByteBuffer(message)->CopyTo(text.data());
    done.push_back(text);
  }
  void PostLast() override { done.push_back("LAST"); }

  std::deque<std::string> queue;
  std::vector<std::string> done;
  int asked = 0;
  std::function<void()> before_answer;
  std::function<void()> after_empty;
};

using Done = std::vector<std::string>;

class WritePumpTest : public ::testing::Test {
 protected:
  NotingPort port_;
  WritePump pump_{&port_};
};

TEST_F(WritePumpTest, PostsNothingBeforeItIsOpen) {
  port_.queue = {"a"};
  pump_.Wake();
  EXPECT_EQ(port_.done, Done{});
  pump_.Open();
  EXPECT_EQ(port_.done, Done{"a"});
}

TEST_F(WritePumpTest, OneWriteIsOutstandingAndTheNextFollowsItsCompletion) {
  port_.queue = {"a", "b"};
  pump_.Open();
  pump_.Wake();
  pump_.Wake();
  EXPECT_EQ(port_.done, Done{"a"});
  pump_.OnWritten(true);
  EXPECT_EQ(port_.done, (Done{"a", "b"}));
  pump_.OnWritten(true);
  port_.queue = {"c"};
  pump_.Wake();
  EXPECT_EQ(port_.done, (Done{"a", "b", "c"}));
}

TEST_F(WritePumpTest, WakeThatComesJustAfterTheQuestionIsNotLost) {
  port_.after_empty = [this] {
    port_.queue = {"late"};
    pump_.Wake();
  };
  pump_.Open();
  EXPECT_EQ(port_.done, Done{"late"});
}

TEST_F(WritePumpTest, FlushSendsWhatWaitsAndThenTheLast) {
  port_.queue = {"a", "b"};
  pump_.Open();
  pump_.Close(WritePump::Rest::kFlush);
  pump_.OnWritten(true);
  EXPECT_EQ(port_.done, (Done{"a", "b"}));
  pump_.OnWritten(true);
  EXPECT_EQ(port_.done, (Done{"a", "b", "LAST"}));
}

TEST_F(WritePumpTest, DropWaitsOnlyForTheOutstandingWrite) {
  port_.queue = {"a", "b"};
  pump_.Open();
  pump_.Close(WritePump::Rest::kDrop);
  EXPECT_EQ(port_.done, Done{"a"});
  pump_.OnWritten(true);
  EXPECT_EQ(port_.done, (Done{"a", "LAST"}));
}

TEST_F(WritePumpTest, CloseOfAnIdlePumpPostsTheLastAtOnceAndOnce) {
  pump_.Open();
  pump_.Close(WritePump::Rest::kDrop);
  pump_.Close(WritePump::Rest::kDrop);
  pump_.Close(WritePump::Rest::kFlush);
  EXPECT_EQ(port_.done, Done{"LAST"});
  port_.queue = {"a"};
  pump_.Wake();
  EXPECT_EQ(port_.done, Done{"LAST"});
}

TEST_F(WritePumpTest, FlushTurnsIntoDropButNotBack) {
  port_.queue = {"a", "b", "c"};
  pump_.Open();
  pump_.Close(WritePump::Rest::kFlush);
  pump_.Close(WritePump::Rest::kDrop);
  pump_.Close(WritePump::Rest::kFlush);
  pump_.OnWritten(true);
  EXPECT_EQ(port_.done, (Done{"a", "LAST"}));
}

TEST_F(WritePumpTest, CloseBeforeOpenPostsTheLastWhenItOpens) {
  port_.queue = {"a"};
  pump_.Close(WritePump::Rest::kDrop);
  EXPECT_EQ(port_.done, Done{});
  pump_.Open();
  EXPECT_EQ(port_.done, Done{"LAST"});
}

TEST_F(WritePumpTest, NothingIsSentAfterAFailedWrite) {
  port_.queue = {"a", "b"};
  pump_.Open();
  pump_.OnWritten(false);
  const int asked = port_.asked;
  pump_.Wake();
  EXPECT_EQ(port_.done, Done{"a"});
  EXPECT_EQ(port_.asked, asked);
  pump_.Close(WritePump::Rest::kFlush);
  EXPECT_EQ(port_.done, (Done{"a", "LAST"}));
}

TEST_F(WritePumpTest, MessageThatComesWhileClosingWithFlushIsSent) {
  pump_.Open();
  port_.queue = {};
  port_.before_answer = [this] { pump_.Close(WritePump::Rest::kFlush); };
  port_.after_empty = [this] {
    port_.queue = {"late"};
    pump_.Wake();
  };
  pump_.Wake();
  EXPECT_EQ(port_.done, Done{"late"});
  pump_.OnWritten(true);
  EXPECT_EQ(port_.done, (Done{"late", "LAST"}));
}

}  // namespace
}  // namespace sangam
