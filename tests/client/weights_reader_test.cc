#include "client/weights_reader.h"

#include <grpcpp/support/status.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/tensor.pb.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

// A job with one segment of `elements`, on the given servers.
v1::Job Job(uint64_t elements, const std::vector<std::string>& servers) {
  v1::Job job;
  job.set_id(3);
  job.set_state(v1::SUCCEEDED);
  job.set_weights_available(true);
  v1::SegmentLayout& segment = *job.mutable_layout()->add_segment();
  segment.set_element_count(elements);
  v1::ParameterLayout& parameter = *segment.add_parameter();
  parameter.set_name("w");
  parameter.add_shape(elements);
  parameter.set_element_count(elements);
  for (const std::string& server : servers) job.add_server_address(server);
  return job;
}

v1::TensorFrame Page(uint64_t first, uint64_t count, char byte) {
  v1::TensorFrame frame;
  v1::FrameHeader& header = *frame.mutable_header();
  header.set_job(3);
  header.set_step(9);
  header.set_first_element(first);
  header.set_element_count(count);
  header.set_encoding(v1::ENCODING_FP32);
  header.set_kind(v1::FRAME_KIND_WEIGHTS);
  frame.set_payload(std::string(count * 4, byte));
  return frame;
}

WeightsReaderOptions FastOptions() {
  WeightsReaderOptions options;
  options.connect_deadline = absl::Milliseconds(200);
  return options;
}

std::string Error(const v1::Job& job, const WeightsReaderOptions& options, absl::StatusCode code) {
  const absl::Status status = ReadWeights(job, options).status();
  EXPECT_EQ(status.code(), code) << status;
  return std::string(status.message());
}

TEST(WeightsReaderTest, ReadsFromAllServers) {
  FakeCoordinator one;
  FakeCoordinator two;
  // Longer than gRPC's default limit of 4 MiB for a message.
  const uint64_t page = 2 * 1024 * 1024;
  one.SetPages({Page(0, page, 'a'), Page(2 * page, page, 'c')}, grpc::Status::OK);
  two.SetPages({Page(page, page, 'b')}, grpc::Status::OK);
  const auto weights = ReadWeights(Job(3 * page, {one.address(), two.address()}), FastOptions());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->step(), 9u);
  const absl::string_view bytes = weights->Tensors()[0].bytes;
  EXPECT_EQ(bytes.size(), 12 * page);
  EXPECT_EQ(bytes[0], 'a');
  EXPECT_EQ(bytes[4 * page], 'b');
  EXPECT_EQ(bytes[12 * page - 1], 'c');
}

TEST(WeightsReaderTest, MissingPagesAreAnError) {
  FakeCoordinator server;
  server.SetPages({Page(0, 4, 'a')}, grpc::Status::OK);
  EXPECT_THAT(
      Error(Job(8, {server.address()}), FastOptions(), absl::StatusCode::kFailedPrecondition),
      HasSubstr("no server sent elements [4, 8)"));
}

TEST(WeightsReaderTest, FaultyPagesAreAnErrorThatNamesTheServer) {
  FakeCoordinator server;
  server.SetPages({Page(0, 9, 'a'), Page(0, 9, 'a')}, grpc::Status::OK);
  EXPECT_THAT(Error(Job(8, {server.address()}), FastOptions(), absl::StatusCode::kInvalidArgument),
              HasSubstr(absl::StrCat("from ", server.address(), ": frame's range")));
}

TEST(WeightsReaderTest, JobsWithoutWeightsAreNotAskedFor) {
  v1::Job job = Job(8, {"127.0.0.1:1"});
  job.set_weights_available(false);
  EXPECT_THAT(Error(job, FastOptions(), absl::StatusCode::kFailedPrecondition),
              HasSubstr("no server holds weights of job 3, which is SUCCEEDED"));
}

TEST(WeightsReaderTest, ErrorsOfTheServerNameIt) {
  FakeCoordinator server;
  server.SetPages({}, grpc::Status(grpc::StatusCode::NOT_FOUND, "no job 3"));
  EXPECT_EQ(Error(Job(8, {server.address()}), FastOptions(), absl::StatusCode::kNotFound),
            absl::StrCat("server ", server.address(), ": no job 3"));
}

TEST(WeightsReaderTest, TriesAgainBeforeTheFirstPage) {
  FakeCoordinator server;
  server.SetPages({Page(0, 8, 'a')}, grpc::Status::OK);
  server.FailNext(2, grpc::Status(grpc::StatusCode::UNAVAILABLE, "not now"));
  WeightsReaderOptions options;
  EXPECT_TRUE(ReadWeights(Job(8, {server.address()}), options).ok());
}

TEST(WeightsReaderTest, AServerOutOfReachIsGivenUp) {
  const std::string address = FakeCoordinator().address();
  EXPECT_THAT(Error(Job(8, {address}), FastOptions(), absl::StatusCode::kUnavailable),
              HasSubstr(absl::StrCat("server ", address)));
}

TEST(WeightsReaderTest, ALossAfterTheFirstPageIsFinal) {
  FakeCoordinator server;
  server.SetPages({Page(0, 4, 'a')}, grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"));
  EXPECT_THAT(Error(Job(8, {server.address()}), FastOptions(), absl::StatusCode::kUnavailable),
              HasSubstr("gone"));
  EXPECT_EQ(server.calls(), 1);
}

TEST(WeightsReaderTest, GoesOnWhereItWasBrokenOffForRoom) {
  const grpc::Status broken(grpc::StatusCode::RESOURCE_EXHAUSTED,
                            "Received RST_STREAM with error code 11");
  FakeCoordinator server;
  server.SetPagesOnce({Page(0, 4, 'a')}, broken);
  server.SetPagesOnce({Page(4, 4, 'b'), Page(0, 4, 'a')}, grpc::Status::OK);
  server.SetPages({Page(0, 4, 'a')}, broken);
  WeightsReaderOptions options;
  const auto weights = ReadWeights(Job(8, {server.address()}), options);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->Tensors()[0].bytes, "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb");
  EXPECT_EQ(server.calls(), 2);
  // Bounded: from now on there is never more than the first page.
  EXPECT_THAT(
      Error(Job(8, {server.address()}), FastOptions(), absl::StatusCode::kResourceExhausted),
      HasSubstr("error code 11"));
  // What the server itself refuses is final.
  const int calls = server.calls();
  server.SetPages({}, grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many streams"));
  Error(Job(8, {server.address()}), options, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(server.calls(), calls + 1);
}

TEST(WeightsReaderTest, AServerThatStopsSendingIsGivenUp) {
  FakeCoordinator server;
  server.SetPages({Page(0, 4, 'a')}, grpc::Status::OK);
  server.StallAfterPages();
  WeightsReaderOptions options = FastOptions();
  options.page_deadline = absl::Milliseconds(200);
  EXPECT_THAT(
      Error(Job(8, {server.address()}), options, absl::StatusCode::kDeadlineExceeded),
      HasSubstr(absl::StrCat("server ", server.address(), ": nothing came for 0.2s after 1 page")));
}

TEST(WeightsReaderTest, AnInterruptEndsTheReading) {
  FakeCoordinator server;
  server.StallAfterPages();
  WeightsReaderOptions options = FastOptions();
  options.check = [] { return absl::CancelledError("Ctrl-C"); };
  EXPECT_EQ(Error(Job(8, {server.address()}), options, absl::StatusCode::kCancelled), "Ctrl-C");
}

}  // namespace
}  // namespace sangam
