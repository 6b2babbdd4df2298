#ifndef SANGAM_TESTS_TESTING_WIRE_CLIENT_H_
#define SANGAM_TESTS_TESTING_WIRE_CLIENT_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/parameter_service.grpc.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"

namespace sangam {

// One PushPull stream of a worker, with plain protobuf and blocking calls, as any foreign client
// would speak it. Every call is bounded by a deadline of the whole stream.
class WireClient {
 public:
  explicit WireClient(const std::string& address, absl::Duration deadline = absl::Seconds(20));
  explicit WireClient(std::shared_ptr<grpc::Channel> channel,
                      absl::Duration deadline = absl::Seconds(20));

  // Whether the frame could be sent; false: the stream is over.
  bool Write(const v1::TensorFrame& frame) { return stream_->Write(frame); }
  // The next frame; nothing: the stream is over.
  std::optional<v1::TensorFrame> Read();
  void HalfClose() { stream_->WritesDone(); }
  // Reads to the end, and returns how the stream ended.
  absl::Status Finish();
  // Breaks the stream off.
  void Cancel() { context_.TryCancel(); }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::ParameterService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::TensorFrame, v1::TensorFrame>> stream_;
};

// A channel that takes long messages.
std::shared_ptr<grpc::Channel> WireChannel(const std::string& address);

// Frames of worker `source` of `plan`, as they should be.
v1::TensorFrame HelloFrame(const v1::Plan& plan, uint32_t source = 0);
// For the whole segment.
v1::TensorFrame SubscribeFrame(const v1::Plan& plan, uint32_t segment, uint64_t step);
// For one page, all shares and the only use; `elements` are the page's.
v1::TensorFrame GradientFrame(const v1::Plan& plan, uint32_t segment, uint64_t first_element,
                              uint64_t step, const std::vector<float>& elements);

std::string FloatsToBytes(const std::vector<float>& floats);
std::vector<float> BytesToFloats(const std::string& bytes);

}  // namespace sangam

#endif  // SANGAM_TESTS_TESTING_WIRE_CLIENT_H_
