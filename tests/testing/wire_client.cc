#include "tests/testing/wire_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

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
#include "common/base/version.h"
#include "common/rpc/grpc_status.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"

namespace sangam {

std::shared_ptr<grpc::Channel> WireChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(64 << 20);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

WireClient::WireClient(const std::string& address, absl::Duration deadline)
    : WireClient(WireChannel(address), deadline) {}

WireClient::WireClient(std::shared_ptr<grpc::Channel> channel, absl::Duration deadline)
    : channel_(std::move(channel)), stub_(v1::ParameterService::NewStub(channel_)) {
  context_.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(deadline));
  stream_ = stub_->PushPull(&context_);
}

std::optional<v1::TensorFrame> WireClient::Read() {
  v1::TensorFrame frame;
  if (!stream_->Read(&frame)) return std::nullopt;
  return frame;
}

absl::Status WireClient::Finish() {
  v1::TensorFrame frame;
  while (stream_->Read(&frame)) {
  }
  return FromGrpcStatus(stream_->Finish());
}

v1::TensorFrame HelloFrame(const v1::Plan& plan, uint32_t source) {
  v1::StreamHello hello;
  hello.set_protocol_version(kProtocolVersion);
  hello.set_schema_hash(plan.schema_hash());
  hello.set_worker(plan.worker(static_cast<int>(source)).name());
  hello.set_incarnation(plan.worker(static_cast<int>(source)).incarnation());
  v1::TensorFrame frame;
  frame.mutable_header()->set_kind(v1::FRAME_KIND_HELLO);
  frame.mutable_header()->set_job(plan.job());
  frame.mutable_header()->set_generation(plan.generation());
  frame.mutable_header()->set_source(source);
  frame.set_payload(hello.SerializeAsString());
  return frame;
}

v1::TensorFrame SubscribeFrame(const v1::Plan& plan, uint32_t segment, uint64_t step) {
  v1::TensorFrame frame;
  frame.mutable_header()->set_kind(v1::FRAME_KIND_SUBSCRIBE);
  frame.mutable_header()->set_job(plan.job());
  frame.mutable_header()->set_generation(plan.generation());
  frame.mutable_header()->set_step(step);
  frame.mutable_header()->set_segment(segment);
  frame.mutable_header()->set_element_count(
      plan.layout().segment(static_cast<int>(segment)).element_count());
  return frame;
}

v1::TensorFrame GradientFrame(const v1::Plan& plan, uint32_t segment, uint64_t first_element,
                              uint64_t step, const std::vector<float>& elements) {
  v1::TensorFrame frame;
  v1::FrameHeader& header = *frame.mutable_header();
  header.set_kind(v1::FRAME_KIND_GRADIENT);
  header.set_encoding(v1::ENCODING_FP32);
  header.set_job(plan.job());
  header.set_generation(plan.generation());
  header.set_step(step);
  header.set_segment(segment);
  header.set_first_element(first_element);
  header.set_element_count(elements.size());
  header.set_span_end(plan.shares());
  header.set_samples(10);
  frame.set_payload(FloatsToBytes(elements));
  return frame;
}

std::string FloatsToBytes(const std::vector<float>& floats) {
  std::string bytes(floats.size() * sizeof(float), '\0');
  if (!floats.empty()) std::memcpy(bytes.data(), floats.data(), bytes.size());
  return bytes;
}

std::vector<float> BytesToFloats(const std::string& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

}  // namespace sangam
