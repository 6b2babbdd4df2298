#include "server/rpc/state_reader.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/errors/error_details.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/host_port.h"
#include "common/rpc/server_runner.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.grpc.pb.h"
#include "proto/parameter_service.grpc.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"

namespace sangam {
namespace {

// A coordinator with a checkpoint of five pages; each call ends after some more of them with
// `fault`.
class BrokenCoordinator final : public v1::ClusterService::Service {
 public:
  grpc::Status ReadCheckpoint(grpc::ServerContext*, const v1::ReadCheckpointRequest* request,
                              grpc::ServerWriter<v1::TensorFrame>* writer) override {
    const uint64_t end = 2 * static_cast<uint64_t>(++calls);
    for (uint64_t page = 0; page < 5; ++page) {
      if (page == end) return fault;
      v1::TensorFrame frame;
      frame.mutable_header()->set_job(request->job());
      frame.mutable_header()->set_segment(page == 4 ? 1 : 0);
      frame.mutable_header()->set_first_element(page % 4);
      frame.set_payload("x");
      writer->Write(frame);
    }
    return grpc::Status::OK;
  }

  std::atomic<int> calls{0};
  grpc::Status fault = {grpc::StatusCode::UNAVAILABLE, "killed"};
};

// A server with the state of five pages, likewise.
class BrokenServer final : public v1::ParameterService::Service {
 public:
  grpc::Status ReadState(grpc::ServerContext*, const v1::ReadStateRequest*,
                         grpc::ServerWriter<v1::TensorFrame>* writer) override {
    const int end = more * ++calls;
    for (int page = 0; page < 5; ++page) {
      if (page == end) return fault;
      v1::TensorFrame frame;
      frame.mutable_header()->set_first_element(static_cast<uint64_t>(page));
      writer->Write(frame);
    }
    return grpc::Status::OK;
  }

  std::atomic<int> calls{0};
  int more = 2;  // pages that each call comes further
  grpc::Status fault;
};

class StateReaderTest : public ::testing::Test {
 protected:
  StateReaderTest() {
    ServerRunner::Options options;
    options.listen = "127.0.0.1:0";
    runner_ = *ServerRunner::Start(options, [this](grpc::ServerBuilder* builder) {
      builder->RegisterService(&coordinator_);
      builder->RegisterService(&server_);
    });
    assignment_.mutable_plan()->set_job(5);
  }

  absl::Status Read(StateReader* reader, const std::string& address) {
    return reader->ReadCheckpoint(
        address, v1::DaemonIdentity(), assignment_,
        [this](const v1::FrameHeader& header, absl::string_view) {
          pages_.push_back(10 * header.segment() + header.first_element());
          return absl::OkStatus();
        });
  }

  absl::Status ReadState(StateReader* reader) {
    return reader->ReadState(ToString(runner_->address()), 5, 7,
                             [this](const v1::FrameHeader& header, absl::string_view) {
                               pages_.push_back(header.first_element());
                               return absl::OkStatus();
                             });
  }

  BrokenCoordinator coordinator_;
  BrokenServer server_;
  std::unique_ptr<ServerRunner> runner_;
  v1::Assignment assignment_;
  std::vector<uint64_t> pages_;
};

TEST_F(StateReaderTest, GoesOnWhenTheCoordinatorIsBack) {
  StateReader reader;
  const absl::Status status = Read(&reader, ToString(runner_->address()));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(coordinator_.calls, 3);
  EXPECT_EQ(pages_, (std::vector<uint64_t>{0, 1, 2, 3, 10}));
}

TEST_F(StateReaderTest, GoesOnWhereItWasBrokenOffForRoom) {
  coordinator_.fault = {grpc::StatusCode::RESOURCE_EXHAUSTED,
                        "Received RST_STREAM with error code 11"};
  StateReader reader;
  const absl::Status status = Read(&reader, ToString(runner_->address()));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(coordinator_.calls, 3);
  EXPECT_EQ(pages_, (std::vector<uint64_t>{0, 1, 2, 3, 10}));
}

TEST_F(StateReaderTest, OtherErrorsAreNotTriedAgain) {
  coordinator_.fault = {grpc::StatusCode::DATA_LOSS, "damaged"};
  StateReader reader;
  EXPECT_EQ(Read(&reader, ToString(runner_->address())).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(coordinator_.calls, 1);
}

TEST_F(StateReaderTest, AServerThatHasNoRoomForAMomentIsAskedAgain) {
  const std::vector<grpc::Status> faults = {
      {grpc::StatusCode::RESOURCE_EXHAUSTED, "Received RST_STREAM with error code 11"},
      ToGrpcStatus(WithRetryDelay(absl::ResourceExhaustedError("no room"), absl::Milliseconds(20))),
  };
  for (const grpc::Status& fault : faults) {
    server_.calls = 0;
    server_.fault = fault;
    pages_.clear();
    StateReader reader;
    const absl::Status status = ReadState(&reader);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(server_.calls, 3);
    EXPECT_EQ(pages_, (std::vector<uint64_t>{0, 1, 2, 3, 4}));
  }
}

TEST_F(StateReaderTest, OfAServerThatHasGoneNothingIsAskedAgain) {
  server_.fault = {grpc::StatusCode::UNAVAILABLE, "killed"};
  StateReader reader;
  EXPECT_EQ(ReadState(&reader).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server_.calls, 1);
}

// However much of it is lost again: no page comes in between.
TEST_F(StateReaderTest, AServerWithoutRoomIsNotAskedForEver) {
  StateReader::Options options;
  options.patience = absl::Milliseconds(300);
  StateReader reader(options);
  server_.more = 0;
  server_.fault = {grpc::StatusCode::RESOURCE_EXHAUSTED, "Received RST_STREAM with error code 11"};
  EXPECT_EQ(ReadState(&reader).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(pages_.empty());
}

TEST_F(StateReaderTest, GivesUpInTheEndAndWhenItIsStopped) {
  const std::string address = ToString(runner_->address());
  runner_.reset();
  StateReader::Options options;
  options.patience = absl::Milliseconds(300);
  StateReader reader(options);
  EXPECT_EQ(Read(&reader, address).code(), absl::StatusCode::kUnavailable);

  StateReader patient;
  const absl::Duration begin = Clock::Real().Steady();
  std::thread stopper([&patient] { patient.Stop(); });
  EXPECT_EQ(Read(&patient, address).code(), absl::StatusCode::kUnavailable);
  stopper.join();
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(20));
}

}  // namespace
}  // namespace sangam
