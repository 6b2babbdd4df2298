#include "common/rpc/data_channel.h"

#include <grpc/grpc.h>
#include <grpcpp/channel.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.grpc.pb.h"

namespace sangam {
namespace {

// Notes where calls come from, and answers with a payload of as many bytes as the job's number
// says.
class AnsweringService : public v1::ParameterService::Service {
 public:
  grpc::Status ReadWeights(grpc::ServerContext* context, const v1::ReadWeightsRequest* request,
                           grpc::ServerWriter<v1::TensorFrame>* writer) override {
    {
      MutexLock lock(&mutex_);
      peers_.insert(context->peer());
    }
    v1::TensorFrame frame;
    frame.set_payload(std::string(request->job(), 'x'));
    writer->Write(frame);
    return grpc::Status::OK;
  }

  size_t num_peers() {
    MutexLock lock(&mutex_);
    return peers_.size();
  }

 private:
  Mutex mutex_;
  std::set<std::string> peers_ ABSL_GUARDED_BY(mutex_);
};

class DataChannelTest : public ::testing::Test {
 protected:
  DataChannelTest() {
    grpc::ServerBuilder builder;
    ConfigureDataServer(&builder);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }

  grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, uint64_t payload_bytes) {
    const auto stub = v1::ParameterService::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::ReadWeightsRequest request;
    request.set_job(payload_bytes);
    const auto reader = stub->ReadWeights(&context, request);
    v1::TensorFrame frame;
    while (reader->Read(&frame)) {
      EXPECT_EQ(frame.payload().size(), payload_bytes);
    }
    return reader->Finish();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  AnsweringService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(DataChannelTest, EveryChannelHasItsOwnConnection) {
  const auto first = CreateDataChannel(address(), 1000);
  const auto second = CreateDataChannel(address(), 1000);
  EXPECT_TRUE(Call(first, 1).ok());
  EXPECT_TRUE(Call(second, 1).ok());
  EXPECT_EQ(service_.num_peers(), 2);
}

TEST_F(DataChannelTest, TakesMessagesOfOnePageAndNoLongerOnes) {
  // Longer than gRPC takes by default.
  const uint64_t page_elements = 2 << 20;
  const auto channel = CreateDataChannel(address(), page_elements);
  const grpc::Status page = Call(channel, page_elements * sizeof(float));
  EXPECT_TRUE(page.ok()) << page.error_message();
  const grpc::Status longer = Call(channel, page_elements * sizeof(float) + 65 * 1024);
  EXPECT_EQ(longer.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(DataChannelTest, ConnectsAgainSoonAfterAFailure) {
  const auto channel = CreateDataChannel(address(), 1000);
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  EXPECT_EQ(Call(channel, 1).error_code(), grpc::StatusCode::UNAVAILABLE);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address(), grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  ASSERT_NE(server_, nullptr);
  // gRPC's default would be a second, and grow to two minutes.
  EXPECT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() +
                                        std::chrono::milliseconds(3000)));
  EXPECT_TRUE(Call(channel, 1).ok());
}

TEST(MaxDataMessageBytesTest, IsAPageAndRoomForItsHeader) {
  EXPECT_EQ(MaxDataMessageBytes(0), 64 * 1024);
  EXPECT_EQ(MaxDataMessageBytes(256 * 1024), 1024 * 1024 + 64 * 1024);
  EXPECT_EQ(MaxDataMessageBytes(kMaxPageElements), (1 << 30) + 64 * 1024);
}

}  // namespace
}  // namespace sangam
