#include "server/rpc/parameter_stream.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/tensor/buffer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/rpc/parameter_service.h"
#include "tests/server/rpc/fake_shard.h"
#include "tests/testing/parameter_server.h"
#include "tests/testing/wire_client.h"
#include "tests/testing/wire_job.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The life of streams: what waits, who takes whose place, and how they end.
class ParameterStreamTest : public ::testing::Test {
 protected:
  ParameterStreamTest() {
    WireJob job;
    job.workers = 2;
    job.shares = 2;
    plan_ = MakeAssignment(job).plan();
    options_.check_interval = absl::Milliseconds(5);
  }

  void StartServer() {
    server_ = ParameterServer::Start(
        options_,
        [this](uint64_t) -> absl::StatusOr<std::shared_ptr<ParameterShard>> { return shard_; });
    ASSERT_NE(server_, nullptr);
  }

  std::unique_ptr<WireClient> Connect(uint32_t worker = 0) {
    auto client = std::make_unique<WireClient>(server_->address());
    client->Write(HelloFrame(plan_, worker));
    return client;
  }

  // A subscriber that does not read: the cork is on its way and does not get through.
  std::unique_ptr<WireClient> ConnectCorked() {
    auto client = Connect();
    client->Write(SubscribeFrame(plan_, 0, 0));
    EXPECT_TRUE(shard_->WaitForSubscribers(1));
    shard_->Publish(MakeCork());
    return client;
  }

  v1::Plan plan_;
  ParameterService::Options options_;
  FloatBuffer buffer_ = FloatBuffer::Allocate(1000).value();
  std::shared_ptr<FakeShard> shard_ = std::make_shared<FakeShard>();
  std::unique_ptr<ParameterServer> server_;
};

TEST_F(ParameterStreamTest, NewerWeightsOfAPageTakeThePlaceOfThoseThatWait) {
  StartServer();
  const auto client = ConnectCorked();
  for (uint64_t step = 1; step <= 5; ++step) shard_->Publish(MakePage(1, 0, step, buffer_));
  shard_->Publish(MakePage(0, 64, 2, buffer_));
  shard_->Publish(MakePage(0, 64, 1, buffer_));
  shard_->Publish(MakePage(0, 0, 9, buffer_));
  client->HalfClose();
  std::vector<std::string> received;
  while (const std::optional<v1::TensorFrame> frame = client->Read()) {
    received.push_back(absl::StrCat(frame->header().segment(), ":", frame->header().first_element(),
                                    "@", frame->header().step()));
  }
  // Behind the cork: one version of each page, lower segments first.
  EXPECT_THAT(received, ElementsAre("999:0@0", "0:0@9", "0:64@2", "1:0@5"));
  EXPECT_TRUE(client->Finish().ok());
}

TEST_F(ParameterStreamTest, PagesThatAreReplacedOrSentAreLetGo) {
  StartServer();
  const auto client = ConnectCorked();
  FloatBuffer other = FloatBuffer::Allocate(1000).value();
  shard_->Publish(MakePage(1, 0, 1, buffer_));
  EXPECT_FALSE(buffer_.unique());
  shard_->Publish(MakePage(1, 0, 2, other));
  EXPECT_TRUE(buffer_.unique());
  client->HalfClose();
  EXPECT_TRUE(client->Finish().ok());
  server_.reset();
  EXPECT_TRUE(other.unique());
}

TEST_F(ParameterStreamTest, TooManyWaitingPagesEndTheStream) {
  options_.max_waiting_frames = 2;
  StartServer();
  const auto client = ConnectCorked();
  for (uint64_t page = 0; page < 3; ++page) shard_->Publish(MakePage(1, page, 1, buffer_));
  EXPECT_TRUE(buffer_.unique());
  const absl::Status status = client->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("weights of 3 pages wait for it"));
  EXPECT_TRUE(shard_->WaitForSubscribers(0));
}

TEST_F(ParameterStreamTest, WorkerThatStopsReadingIsBrokenOff) {
  options_.stall_deadline = absl::Milliseconds(30);
  options_.end_grace = absl::Milliseconds(30);
  StartServer();
  const auto client = ConnectCorked();
  EXPECT_TRUE(shard_->WaitForSubscribers(0));
  EXPECT_FALSE(client->Finish().ok());
}

TEST_F(ParameterStreamTest, IdleWorkerIsLeftAlone) {
  options_.stall_deadline = absl::Milliseconds(1);
  options_.end_grace = absl::Milliseconds(1);
  options_.hello_deadline = absl::Milliseconds(1000);
  StartServer();
  const auto idle = Connect();
  idle->Write(SubscribeFrame(plan_, 0, 0));
  ASSERT_TRUE(shard_->WaitForSubscribers(1));
  // As long as another stream takes to be ended for its silence.
  WireClient silent(server_->address());
  EXPECT_EQ(silent.Finish().code(), absl::StatusCode::kDeadlineExceeded);
  shard_->Publish(MakePage(1, 0, 1, buffer_));
  EXPECT_TRUE(idle->Read().has_value());
  idle->HalfClose();
  EXPECT_TRUE(idle->Finish().ok());
}

TEST_F(ParameterStreamTest, ErrorOfAWorkerThatDoesNotReadIsBrokenOffAfterTheGrace) {
  options_.end_grace = absl::Milliseconds(30);
  StartServer();
  const auto client = ConnectCorked();
  client->Write(HelloFrame(plan_));
  EXPECT_TRUE(shard_->WaitForSubscribers(0));
  EXPECT_FALSE(client->Finish().ok());
}

TEST_F(ParameterStreamTest, HalfCloseOfAWorkerThatDoesNotReadIsBrokenOffAfterTheGrace) {
  options_.end_grace = absl::Milliseconds(30);
  options_.hello_deadline = absl::Milliseconds(300);
  StartServer();
  const auto client = ConnectCorked();
  client->HalfClose();
  ASSERT_TRUE(shard_->WaitForSubscribers(0));
  // Later than the grace on the same clock.
  WireClient silent(server_->address());
  EXPECT_EQ(silent.Finish().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(client->Finish().ok());
}

TEST_F(ParameterStreamTest, StreamWithoutHelloIsEnded) {
  options_.hello_deadline = absl::Milliseconds(20);
  StartServer();
  WireClient client(server_->address());
  const absl::Status status = client.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("HELLO"));
}

TEST_F(ParameterStreamTest, NewerStreamOfAWorkerTakesThePlaceOfTheOlder) {
  StartServer();
  const auto older = Connect();
  older->Write(SubscribeFrame(plan_, 0, 0));
  ASSERT_TRUE(shard_->WaitForSubscribers(1));
  const auto other_worker = Connect(1);
  v1::TensorFrame subscribe = SubscribeFrame(plan_, 0, 0);
  subscribe.mutable_header()->set_source(1);
  other_worker->Write(subscribe);
  ASSERT_TRUE(shard_->WaitForSubscribers(2));
  const auto newer = Connect();
  EXPECT_EQ(older->Finish().code(), absl::StatusCode::kAborted);
  newer->HalfClose();
  EXPECT_TRUE(newer->Finish().ok());
  other_worker->HalfClose();
  EXPECT_TRUE(other_worker->Finish().ok());
}

TEST_F(ParameterStreamTest, StreamOfAnOlderIncarnationIsRefused) {
  StartServer();
  const auto current = Connect();
  current->Write(SubscribeFrame(plan_, 0, 0));
  ASSERT_TRUE(shard_->WaitForSubscribers(1));
  plan_.mutable_worker(0)->set_incarnation(99);
  const auto late = Connect();
  EXPECT_EQ(late->Finish().code(), absl::StatusCode::kAborted);
  current->HalfClose();
  EXPECT_TRUE(current->Finish().ok());
}

TEST_F(ParameterStreamTest, StreamsAreBounded) {
  options_.max_calls = 1;
  StartServer();
  auto first = Connect();
  first->Write(SubscribeFrame(plan_, 0, 0));
  ASSERT_TRUE(shard_->WaitForSubscribers(1));
  EXPECT_EQ(Connect(1)->Finish().code(), absl::StatusCode::kResourceExhausted);
  first->HalfClose();
  EXPECT_TRUE(first->Finish().ok());
  // The client knows of the end a moment before the server has put the stream away.
  const absl::Duration until = Clock::Real().Steady() + absl::Seconds(20);
  absl::Status status;
  do {
    const auto next = Connect(1);
    next->HalfClose();
    status = next->Finish();
  } while (absl::IsResourceExhausted(status) && Clock::Real().Steady() < until);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ParameterStreamTest, ClientThatGoesAwayIsUnsubscribed) {
  StartServer();
  auto client = Connect();
  client->Write(SubscribeFrame(plan_, 0, 0));
  ASSERT_TRUE(shard_->WaitForSubscribers(1));
  // A shard may be about to send to it.
  const std::shared_ptr<WeightsSink> sink = shard_->subscribers()[0];
  client->Cancel();
  client.reset();
  EXPECT_TRUE(shard_->WaitForSubscribers(0));
  server_.reset();
  sink->Send(MakePage(0, 0, 1, buffer_));
  EXPECT_TRUE(buffer_.unique());
}

TEST_F(ParameterStreamTest, ShortGradientsAreTakenOutOfTheirBlocksAndLongOnesAreNotCopied) {
  StartServer();
  const auto client = Connect();
  client->Write(GradientFrame(plan_, 0, 0, 0, std::vector<float>(64, 1.0f)));
  client->Write(GradientFrame(plan_, 0, 0, 0, std::vector<float>(200'000, 2.0f)));
  ASSERT_TRUE(shard_->WaitForGradients(2));
  const std::vector<SlicePayload> gradients = shard_->gradients();
  EXPECT_EQ(gradients[0].size(), 256);
  // Memory of its own is aligned; in gRPC's block the elements would lie behind headers.
  ASSERT_EQ(gradients[0].pieces().size(), 1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(gradients[0].pieces()[0].data) % 16, 0);
  // gRPC's own blocks are 64 KiB.
  EXPECT_EQ(gradients[1].size(), 800'000);
  EXPECT_GE(gradients[1].pieces().size(), 12);
  std::vector<float> elements(200'000);
  gradients[1].CopyTo(elements.data());
  EXPECT_EQ(elements, std::vector<float>(200'000, 2.0f));
}

TEST_F(ParameterStreamTest, ServerStopsAlthoughAClientDoesNotRead) {
  options_.end_grace = absl::Milliseconds(30);
  StartServer();
  const auto client = ConnectCorked();
  const absl::Duration before = Clock::Real().Steady();
  server_.reset();
  EXPECT_LT(Clock::Real().Steady() - before, absl::Seconds(20));
  EXPECT_FALSE(client->Finish().ok());
}

}  // namespace
}  // namespace sangam
