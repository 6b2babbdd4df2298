// Who may bring activations to a worker, with real handshakes: the worker of the plan, under its
// own name, and for its own job.
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"
#include "common/plan/page_map.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/grpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/pipeline_service.grpc.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "tests/testing/flow_plan.h"
#include "tests/testing/test_identities.h"
#include "tests/testing/wire_client.h"
#include "worker/core/flow_tag.h"
#include "worker/pipeline_server.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

constexpr FlowTag kFirst = {0, false, 0, 0, FlowDirection::kForward};
constexpr uint64_t kColumns = 10;

// The second of two workers, w-1.
class FlowRightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = PipelineServer::Start({}).value();
    testing::FlowPlan flow;
    flow.columns = {kColumns};
    flow.addresses = {"127.0.0.1:1", server_->address()};
    plan_ = testing::MakePlan(flow);
    PipelineLinkOptions options;
    options.plan = &plan_;
    options.worker = 1;
    options.lanes = 1;
    options.max_rows = 3;
    options.kept = 1;
    link_ = server_->Factory()(options).value();
    const absl::Status started = link_->Start([this](const absl::Status& status) {
      MutexLock lock(&mutex_);
      failure_ = status;
    });
    ASSERT_TRUE(started.ok()) << started;
  }
  void TearDown() override {
    link_.reset();
    server_->Shutdown();
  }

  absl::Status failure() {
    MutexLock lock(&mutex_);
    return failure_;
  }

  // A tensor with one row of this value.
  v1::TensorFrame Activation(float value) const {
    v1::TensorFrame frame;
    v1::FrameHeader& header = *frame.mutable_header();
    header.set_kind(v1::FRAME_KIND_ACTIVATION);
    header.set_encoding(v1::ENCODING_FP32);
    header.set_job(plan_.job());
    header.set_generation(plan_.generation());
    header.set_rows(1);
    header.set_columns(kColumns);
    header.set_element_count(kColumns);
    frame.set_payload(FloatsToBytes(std::vector<float>(kColumns, value)));
    return frame;
  }

  // How a stream of worker 0 ends that says this under such a certificate.
  absl::Status Stream(const std::string& role, const std::string& name,
                      std::vector<v1::TensorFrame> frames) {
    const auto channel = CreateDataChannel(server_->address(), kPageElements, kDataWorkers,
                                           identities_.As(role, name));
    const auto stub = v1::PipelineService::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const auto stream = stub->Flow(&context);
    frames.insert(frames.begin(), HelloFrame(plan_));
    for (const v1::TensorFrame& frame : frames) stream->Write(frame);
    stream->WritesDone();
    v1::TensorFrame answer;
    while (stream->Read(&answer)) {
    }
    return FromGrpcStatus(stream->Finish());
  }

  // The value of the one tensor that has come; -1: none has.
  float Received() {
    const auto tensor = link_->Receive(0, kFirst, {1, kColumns}, absl::Milliseconds(100));
    return tensor.ok() ? tensor->data()[0] : -1;
  }

  TestIdentities identities_{"worker"};
  std::unique_ptr<PipelineServer> server_;
  v1::Plan plan_;
  std::unique_ptr<PipelineLink> link_;
  Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(FlowRightsTest, AStreamIsForTheWorkerOfTheCertificate) {
  for (const char* name : {"w-1", "w-7"}) {
    const absl::Status other = Stream("worker", name, {Activation(13)});
    EXPECT_EQ(other.code(), absl::StatusCode::kPermissionDenied) << other;
    EXPECT_THAT(std::string(other.message()), HasSubstr("found the name \"w-0\""));
  }
  for (const char* role : {"client", "viewer", "server", "coordinator", "admin"}) {
    const absl::Status refused = Stream(role, "", {Activation(13)});
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << role << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("may not call"));
  }
  EXPECT_EQ(server_->refusals().Get(Refusal::kRights), 7u);
  EXPECT_EQ(Received(), -1);
  EXPECT_TRUE(Stream("worker", "w-0", {Activation(3)}).ok());
  EXPECT_EQ(Received(), 3);
  EXPECT_TRUE(failure().ok()) << failure();
}

TEST_F(FlowRightsTest, ACertificateWithoutANameIsForAnyWorker) {
  EXPECT_TRUE(Stream("worker", "", {Activation(3)}).ok());
  EXPECT_EQ(Received(), 3);
}

TEST_F(FlowRightsTest, FramesOfAnotherJobEndTheStreamAndChangeNothing) {
  v1::TensorFrame foreign = Activation(13);
  foreign.mutable_header()->set_job(plan_.job() + 1);
  const absl::Status end = Stream("worker", "w-0", {foreign});
  EXPECT_EQ(end.code(), absl::StatusCode::kPermissionDenied) << end;
  EXPECT_EQ(Received(), -1);
  EXPECT_TRUE(failure().ok()) << failure();
  EXPECT_TRUE(Stream("worker", "w-0", {Activation(3)}).ok());
  EXPECT_EQ(Received(), 3);
}

TEST_F(FlowRightsTest, MessagesThatAreTooLongAreCounted) {
  v1::TensorFrame longer = Activation(13);
  longer.set_payload(std::string(kPageElements * sizeof(float) + 1'000'000, 'x'));
  EXPECT_EQ(Stream("worker", "w-0", {longer}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(server_->refusals().Get(Refusal::kMessageSize), 1u);
  EXPECT_EQ(Received(), -1);
}

}  // namespace
}  // namespace sangam
