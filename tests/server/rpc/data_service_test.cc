#include "server/rpc/data_service.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/data/job_data.h"
#include "common/rpc/grpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/data_service.grpc.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/runtime/served_data.h"
#include "tests/testing/data_server.h"
#include "tests/testing/feed_job.h"
#include "tests/testing/wire_client.h"

namespace sangam {
namespace {

using testing::DataServer;
using ::testing::ElementsAre;
using testing::FeedJob;
using ::testing::HasSubstr;
using testing::ServedJobs;

// One Feed stream with plain protobuf and blocking calls, as any foreign client would speak it.
class FeedClient {
 public:
  explicit FeedClient(const std::string& address)
      : stub_(v1::DataService::NewStub(WireChannel(address))) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    stream_ = stub_->Feed(&context_);
  }

  bool Write(const v1::TensorFrame& frame) { return stream_->Write(frame); }
  void HalfClose() { stream_->WritesDone(); }
  std::optional<v1::TensorFrame> Read() {
    v1::TensorFrame frame;
    if (!stream_->Read(&frame)) return std::nullopt;
    return frame;
  }
  // Reads to the end, and returns how the stream ended.
  absl::Status Finish() {
    while (Read().has_value()) {
    }
    return FromGrpcStatus(stream_->Finish());
  }

 private:
  std::unique_ptr<v1::DataService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::TensorFrame, v1::TensorFrame>> stream_;
};

class DataServiceTest : public ::testing::Test {
 protected:
  DataServiceTest() {
    options_.check_interval = absl::Milliseconds(10);
    options_.piece_elements = 5;
  }

  void Serve(const FeedJob& job) {
    job_ = job;
    jobs_.Set(testing::MakeServedJob(job_, testing::MakeFeedData(job_)));
    server_ = std::make_unique<DataServer>(options_, jobs_.finder());
  }
  v1::Plan Plan() const { return testing::MakeFeedAssignment(job_)->plan(); }
  v1::TensorFrame Hello(uint32_t source = 0) const { return HelloFrame(Plan(), source); }
  v1::TensorFrame Request(uint64_t step, uint32_t micro_batch, bool evaluation = false) const {
    v1::TensorFrame frame;
    v1::FrameHeader& header = *frame.mutable_header();
    header.set_kind(v1::FRAME_KIND_DATA_REQUEST);
    header.set_job(job_.job);
    header.set_generation(job_.generation);
    header.set_step(step);
    header.set_micro_batch(micro_batch);
    header.set_evaluation(evaluation);
    return frame;
  }
  // How a stream ends that says this.
  absl::Status EndOf(const std::vector<v1::TensorFrame>& frames) const {
    FeedClient client(server_->address());
    for (const v1::TensorFrame& frame : frames) client.Write(frame);
    client.HalfClose();
    return client.Finish();
  }
  void ExpectEnds(const std::vector<v1::TensorFrame>& frames, absl::StatusCode code,
                  const std::string& words) const {
    const absl::Status end = EndOf(frames);
    EXPECT_EQ(end.code(), code) << end;
    EXPECT_THAT(std::string(end.message()), HasSubstr(words));
  }

  FeedJob job_;
  ServedJobs jobs_;
  DataService::Options options_;
  std::unique_ptr<DataServer> server_;
};

TEST_F(DataServiceTest, AnswersInPiecesInputsBeforeLabels) {
  Serve(FeedJob());
  FeedClient client(server_->address());
  client.Write(Hello());
  client.Write(Request(40, 1, /*evaluation=*/true));
  client.Write(Request(10, 0));
  std::vector<v1::FrameHeader> headers;
  std::vector<float> inputs;
  std::vector<uint32_t> labels;
  for (int i = 0; i < 6; ++i) {
    const std::optional<v1::TensorFrame> frame = client.Read();
    ASSERT_TRUE(frame.has_value());
    headers.push_back(frame->header());
    const size_t count = frame->payload().size() / 4;
    if (i < 2) {
      inputs.resize(inputs.size() + count);
      std::memcpy(inputs.data() + inputs.size() - count, frame->payload().data(), 4 * count);
    } else if (i < 4) {
      labels.resize(labels.size() + count);
      std::memcpy(labels.data() + labels.size() - count, frame->payload().data(), 4 * count);
    }
  }
  client.HalfClose();
  EXPECT_TRUE(client.Finish().ok());
  // Chunk 1 of the test set: samples 3, 4, 5.
  EXPECT_THAT(inputs, ElementsAre(3, 3.5f, 4, 4.5f, 5, 5.5f));
  EXPECT_THAT(labels, ElementsAre(3, 3, 4, 4, 5, 0));
  const auto expect = [&](int i, v1::FrameKind kind, uint64_t first, uint64_t count) {
    EXPECT_EQ(headers[i].kind(), kind) << i;
    EXPECT_EQ(headers[i].first_element(), first) << i;
    EXPECT_EQ(headers[i].element_count(), count) << i;
    EXPECT_EQ(headers[i].rows(), i < 4 ? 3 : 0) << i;
    EXPECT_EQ(headers[i].columns(), 2) << i;
    EXPECT_EQ(headers[i].evaluation(), i < 4) << i;
    EXPECT_EQ(headers[i].step(), i < 4 ? 40 : 10) << i;
    EXPECT_EQ(headers[i].micro_batch(), i < 4 ? 1 : 0) << i;
  };
  expect(0, v1::FRAME_KIND_INPUTS, 0, 5);
  expect(1, v1::FRAME_KIND_INPUTS, 5, 1);
  expect(2, v1::FRAME_KIND_LABELS, 0, 5);
  expect(3, v1::FRAME_KIND_LABELS, 5, 1);
  EXPECT_EQ(headers[0].encoding(), v1::ENCODING_FP32);
  EXPECT_EQ(headers[2].encoding(), v1::ENCODING_UINT32);
  // Micro-batch 0 of the epoch's last step has no samples; it is answered all the same.
  expect(4, v1::FRAME_KIND_INPUTS, 0, 0);
  expect(5, v1::FRAME_KIND_LABELS, 0, 0);
}

TEST_F(DataServiceTest, AnswersWhatIsAskedBeforeAHalfClose) {
  Serve(FeedJob());
  FeedClient client(server_->address());
  client.Write(Hello());
  for (uint32_t m = 0; m < 4; ++m) client.Write(Request(0, m));
  client.HalfClose();
  int labels = 0;
  while (const std::optional<v1::TensorFrame> frame = client.Read()) {
    if (frame->header().kind() == v1::FRAME_KIND_LABELS &&
        frame->header().first_element() + frame->header().element_count() ==
            frame->header().rows() * 2) {
      ++labels;
    }
  }
  EXPECT_EQ(labels, 4);
  EXPECT_TRUE(client.Finish().ok());
}

TEST_F(DataServiceTest, ChecksTheHello) {
  FeedJob job;
  job.ranks = 3;
  Serve(job);
  const auto changed = [&](uint32_t source, const auto& change) {
    v1::TensorFrame frame = Hello(source);
    v1::StreamHello hello;
    EXPECT_TRUE(hello.ParseFromString(frame.payload()));
    change(frame.mutable_header(), &hello);
    frame.set_payload(hello.SerializeAsString());
    return std::vector<v1::TensorFrame>{frame};
  };
  ExpectEnds(changed(0, [](auto*, auto* hello) { hello->set_protocol_version(77); }),
             absl::StatusCode::kFailedPrecondition, "protocol version: worker 'w0' has 77");
  ExpectEnds(changed(0, [](auto*, auto* hello) { hello->set_schema_hash(1); }),
             absl::StatusCode::kFailedPrecondition, "schema of job 5: worker 'w0' has 1");
  ExpectEnds(changed(0, [](auto* header, auto*) { header->set_generation(1); }),
             absl::StatusCode::kAborted, "generation: found 1, the coordinator serves 2");
  ExpectEnds(changed(0, [](auto*, auto* hello) { hello->set_incarnation(9); }),
             absl::StatusCode::kAborted, "incarnation of worker 'w0': found 9, the plan has 1");
  ExpectEnds(changed(0, [](auto* header, auto*) { header->set_job(6); }),
             absl::StatusCode::kNotFound, "job 6");
  ExpectEnds(changed(0, [](auto* header, auto*) { header->set_source(2); }),
             absl::StatusCode::kInvalidArgument, "worker: found 'w0' as source 2");
  ExpectEnds(changed(0, [](auto* header, auto*) { header->set_source(3); }),
             absl::StatusCode::kInvalidArgument, "source: found 3, expected less than 3");
  ExpectEnds({Hello(1)}, absl::StatusCode::kInvalidArgument,
             "worker 'w1' has neither the first nor the last block");
  ExpectEnds({Request(0, 0)}, absl::StatusCode::kInvalidArgument,
             "found FRAME_KIND_DATA_REQUEST, expected FRAME_KIND_HELLO as the first frame");
  ExpectEnds({Hello(), Hello()}, absl::StatusCode::kInvalidArgument,
             "expected FRAME_KIND_DATA_REQUEST after the HELLO");
}

TEST_F(DataServiceTest, ChecksRequests) {
  Serve(FeedJob());
  ExpectEnds({Hello(), Request(3, 4)}, absl::StatusCode::kInvalidArgument,
             "frame 2 of the stream: micro-batch 4 of step 3: expected less than 4");
  ExpectEnds({Hello(), Request(3, 3, true)}, absl::StatusCode::kInvalidArgument,
             "chunk 3 of the test set: expected less than 3");
  v1::TensorFrame request = Request(0, 0);
  request.mutable_header()->set_generation(3);
  ExpectEnds({Hello(), request}, absl::StatusCode::kAborted, "generation: found 3");
  request = Request(0, 0);
  request.mutable_header()->set_source(1);
  ExpectEnds({Hello(), request}, absl::StatusCode::kInvalidArgument,
             "source: found 1, expected 0 as in the HELLO");
  request = Request(0, 0);
  request.set_payload("x");
  ExpectEnds({Hello(), request}, absl::StatusCode::kInvalidArgument,
             "payload of DATA_REQUEST: found 1 bytes, expected none");
  request.set_payload(std::string(100000, 'x'));
  ExpectEnds({Hello(), request}, absl::StatusCode::kInvalidArgument, "expected at most 65536");
}

TEST_F(DataServiceTest, RefusesMoreRequestsThanAllowedUnanswered) {
  // Answers that are too large for all of them to be on their way to a client that does not read.
  FeedJob job;
  job.batch = 800000;
  job.micro_batches = 1;
  job.train_samples = 800000;
  options_.max_requests = 4;
  options_.piece_elements = 256 * 1024;
  Serve(job);
  FeedClient client(server_->address());
  client.Write(Hello());
  for (int i = 0; i < 12; ++i) client.Write(Request(0, 0));
  const absl::Status end = client.Finish();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted) << end;
  EXPECT_THAT(std::string(end.message()),
              HasSubstr("found a request while 4 are unanswered, expected at most 4"));
}

TEST_F(DataServiceTest, EndsIdleStreamsOfJobsThatAreOver) {
  Serve(FeedJob());
  FeedClient client(server_->address());
  client.Write(Hello());
  client.Write(Request(0, 0));
  ASSERT_TRUE(client.Read().has_value());
  jobs_.Remove(job_.job);
  EXPECT_EQ(client.Finish().code(), absl::StatusCode::kNotFound);
}

TEST_F(DataServiceTest, EndsStreamsWithoutAHello) {
  options_.hello_deadline = absl::Milliseconds(20);
  Serve(FeedJob());
  FeedClient client(server_->address());
  const absl::Status end = client.Finish();
  EXPECT_EQ(end.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(end.message()), HasSubstr("found no HELLO"));
}

TEST_F(DataServiceTest, ANewerStreamOfAWorkerTakesThePlaceOfTheOld) {
  Serve(FeedJob());
  FeedClient older(server_->address());
  older.Write(Hello());
  older.Write(Request(0, 0));
  ASSERT_TRUE(older.Read().has_value());
  FeedClient newer(server_->address());
  newer.Write(Hello());
  EXPECT_EQ(older.Finish().code(), absl::StatusCode::kAborted);
  newer.Write(Request(0, 0));
  EXPECT_TRUE(newer.Read().has_value());
}

TEST_F(DataServiceTest, AStopIsUnavailable) {
  Serve(FeedJob());
  FeedClient client(server_->address());
  client.Write(Hello());
  client.Write(Request(0, 0));
  ASSERT_TRUE(client.Read().has_value());
  server_.reset();
  EXPECT_EQ(client.Finish().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace sangam
