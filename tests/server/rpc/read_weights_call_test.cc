#include "server/rpc/read_weights_call.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/refusal_counts.h"
#include "common/rpc/grpc_status.h"
#include "common/tensor/buffer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.grpc.pb.h"
#include "server/rpc/parameter_service.h"
#include "tests/server/rpc/fake_shard.h"
#include "tests/testing/parameter_server.h"
#include "tests/testing/wire_client.h"

namespace sangam {
namespace {

// A blocking ReadWeights.
class Reader {
 public:
  Reader(const std::string& address, uint64_t job)
      : stub_(v1::ParameterService::NewStub(WireChannel(address))) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::ReadWeightsRequest request;
    request.set_job(job);
    reader_ = stub_->ReadWeights(&context_, request);
  }

  std::optional<v1::TensorFrame> Read() {
    v1::TensorFrame frame;
    if (!reader_->Read(&frame)) return std::nullopt;
    return frame;
  }
  absl::Status Finish() {
    while (Read().has_value()) {
    }
    return FromGrpcStatus(reader_->Finish());
  }

 private:
  std::unique_ptr<v1::ParameterService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::TensorFrame>> reader_;
};

class ReadWeightsCallTest : public ::testing::Test {
 protected:
  ReadWeightsCallTest() { options_.check_interval = absl::Milliseconds(5); }

  void StartServer() {
    server_ = ParameterServer::Start(
        options_, [this](uint64_t job) -> absl::StatusOr<std::shared_ptr<ParameterShard>> {
          if (job != 7) return absl::NotFoundError(absl::StrCat("no job ", job));
          return shard_;
        });
    ASSERT_NE(server_, nullptr);
  }

  ParameterService::Options options_;
  FloatBuffer buffer_ = FloatBuffer::Allocate(1000).value();
  std::shared_ptr<FakeShard> shard_ = std::make_shared<FakeShard>();
  std::unique_ptr<ParameterServer> server_;
};

TEST_F(ReadWeightsCallTest, SendsEveryPageAndLetsGoOfIt) {
  for (size_t i = 0; i < buffer_.size(); ++i) buffer_.data()[i] = static_cast<float>(i);
  shard_->SetPages(
      {MakePage(0, 0, 3, buffer_), MakePage(0, 1000, 3, buffer_), MakePage(2, 0, 4, buffer_)});
  StartServer();
  Reader reader(server_->address(), 7);
  for (const char* expected : {"0:0@3", "0:1000@3", "2:0@4"}) {
    const std::optional<v1::TensorFrame> frame = reader.Read();
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(absl::StrCat(frame->header().segment(), ":", frame->header().first_element(), "@",
                           frame->header().step()),
              expected);
    EXPECT_EQ(BytesToFloats(frame->payload()),
              std::vector<float>(buffer_.data(), buffer_.data() + buffer_.size()));
  }
  EXPECT_TRUE(reader.Finish().ok());
  server_.reset();
  shard_->SetPages({});
  EXPECT_TRUE(buffer_.unique());
}

TEST_F(ReadWeightsCallTest, ASnapshotThatWasReadIsReleased) {
  shard_->SetPages({MakePage(0, 0, 3, buffer_), MakePage(2, 0, 3, buffer_)});
  shard_->SetStateStep(3);
  StartServer();
  const auto stub = v1::ParameterService::NewStub(WireChannel(server_->address()));
  const auto read = [&stub](uint64_t step) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::ReadStateRequest request;
    request.set_job(7);
    request.set_step(step);
    const auto reader = stub->ReadState(&context, request);
    int pages = 0;
    v1::TensorFrame frame;
    while (reader->Read(&frame)) ++pages;
    return std::make_pair(pages, FromGrpcStatus(reader->Finish()).code());
  };
  EXPECT_EQ(read(4), std::make_pair(0, absl::StatusCode::kNotFound));
  EXPECT_EQ(read(3), std::make_pair(2, absl::StatusCode::kOk));
  EXPECT_TRUE(shard_->WaitForRelease());
  EXPECT_EQ(read(3), std::make_pair(0, absl::StatusCode::kNotFound));
}

TEST_F(ReadWeightsCallTest, ServerWithoutPagesAnswersWithNone) {
  StartServer();
  Reader reader(server_->address(), 7);
  EXPECT_FALSE(reader.Read().has_value());
  EXPECT_TRUE(reader.Finish().ok());
}

TEST_F(ReadWeightsCallTest, UnknownJobIsNotFound) {
  StartServer();
  EXPECT_EQ(Reader(server_->address(), 8).Finish(), absl::NotFoundError("no job 8"));
}

TEST_F(ReadWeightsCallTest, ReaderThatDoesNotReadIsBrokenOff) {
  options_.stall_deadline = absl::Milliseconds(30);
  shard_->SetPages({MakeCork(), MakePage(0, 0, 1, buffer_)});
  StartServer();
  Reader reader(server_->address(), 7);
  ASSERT_TRUE(shard_->WaitForReads(1));
  shard_->SetPages({});
  // With the call its hold on the pages ends.
  const absl::Duration until = Clock::Real().Steady() + absl::Seconds(20);
  while (!buffer_.unique() && Clock::Real().Steady() < until) std::this_thread::yield();
  EXPECT_TRUE(buffer_.unique());
  EXPECT_FALSE(reader.Finish().ok());
}

TEST_F(ReadWeightsCallTest, ReadersOfOneCallerAreBounded) {
  options_.max_reads_of_one = 2;
  RefusalCounts counts;
  options_.counts = &counts;
  shard_->SetPages({MakeCork()});
  StartServer();
  Reader first(server_->address(), 7);
  Reader second(server_->address(), 7);
  ASSERT_TRUE(shard_->WaitForReads(2));
  const absl::Status third = Reader(server_->address(), 7).Finish();
  EXPECT_EQ(third.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(third.message()), ::testing::HasSubstr("2 of one caller"));
  EXPECT_EQ(counts.Get(Refusal::kCalls), 1u);
  // Who has read all of it gives its place back.
  EXPECT_TRUE(first.Finish().ok());
  absl::Status later;
  const absl::Duration until = Clock::Real().Steady() + absl::Seconds(20);
  do {
    later = Reader(server_->address(), 7).Finish();
  } while (!later.ok() && Clock::Real().Steady() < until);
  EXPECT_TRUE(later.ok()) << later;
  EXPECT_TRUE(second.Finish().ok());
  server_.reset();
}

TEST_F(ReadWeightsCallTest, CallsAreBounded) {
  options_.max_calls = 1;
  shard_->SetPages({MakeCork()});
  StartServer();
  Reader first(server_->address(), 7);
  ASSERT_TRUE(shard_->WaitForReads(1));
  EXPECT_EQ(Reader(server_->address(), 7).Finish().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace sangam
