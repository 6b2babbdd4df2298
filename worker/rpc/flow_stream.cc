#include "worker/rpc/flow_stream.h"

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"
#include "common/base/status_macros.h"
#include "common/rpc/accepted_stream.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/server_stream.h"
#include "common/security/caller.h"
#include "common/security/identity.h"
#include "common/tensor/frame_codec.h"
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"
#include "worker/runtime/flow_exchange.h"

namespace sangam {

FlowStream::FlowStream(const FlowCallContext* context, std::shared_ptr<ServerStream> stream)
    : AcceptedStream(context, {"flow", "frame", "HELLO", "/sangam.v1.PipelineService/Flow"},
                     std::move(stream)),
      context_(*context) {}

FlowStream::Place FlowStream::place() const {
  MutexLock lock(&mutex_);
  return {exchange_.lock(), side_, number_};
}

absl::Status FlowStream::OnNext(const grpc::ByteBuffer& message, bool first) {
  if (message.Length() > context_.max_message_bytes) {
    CountRefusal(context_.counts, Refusal::kMessageSize);
    return absl::ResourceExhaustedError(absl::StrCat("found a message of ", message.Length(),
                                                     " bytes, expected at most ",
                                                     context_.max_message_bytes));
  }
  ASSIGN_OR_RETURN(const SlicePayload bytes, FromByteBuffer(message));
  ASSIGN_OR_RETURN(const Frame frame, DecodeFrame(bytes));
  if (first) return OnHello(frame);
  const Place to = place();
  if (to.exchange == nullptr) {
    return absl::UnavailableError("this worker has ended its part in the job");
  }
  // Before the exchange sees it, which a frame that does not fit would end for everybody.
  if (frame.header.job() != to.exchange->job()) {
    return absl::PermissionDeniedError(absl::StrCat(
        "job: found ", frame.header.job(), ", expected ", to.exchange->job(), " as in the HELLO"));
  }
  return to.exchange->OnFrame(to.side, to.number, frame.header, frame.payload);
}

absl::Status FlowStream::OnHello(const Frame& frame) {
  if (frame.header.kind() != v1::FRAME_KIND_HELLO) {
    return absl::InvalidArgumentError(absl::StrCat("kind: found ",
                                                   v1::FrameKind_Name(frame.header.kind()),
                                                   ", expected FRAME_KIND_HELLO as the first"));
  }
  ASSIGN_OR_RETURN(const v1::StreamHello hello, DecodeHello(frame.payload));
  RETURN_IF_ERROR(caller().CheckDaemon(Role::kWorker, hello.worker()));
  ASSIGN_OR_RETURN(const std::shared_ptr<FlowExchange> exchange,
                   context_.jobs->Find(frame.header.job()));
  ASSIGN_OR_RETURN(const size_t side, exchange->CheckHello(frame.header, hello));
  RETURN_IF_ERROR(context_.registry->Claim(this, frame.header.job(), frame.header.generation(),
                                           frame.header.source(), hello.incarnation()));
  ASSIGN_OR_RETURN(const uint64_t number, exchange->OpenStream(side, shared_from_this()));
  LogInfo("flow opened", "job=%d generation=%d worker=%s", exchange->job(), exchange->generation(),
          LogValue(hello.worker()));
  {
    MutexLock lock(&mutex_);
    exchange_ = exchange;
    side_ = side;
    number_ = number;
    worker_ = hello.worker();
    Open();
  }
  // What waited before there was a stream.
  WakeStream();
  return absl::OkStatus();
}

std::optional<grpc::ByteBuffer> FlowStream::NextMessage() {
  const Place from = place();
  if (from.exchange == nullptr) return std::nullopt;
  const std::optional<FlowExchange::Frame> frame = from.exchange->NextFrame(from.side, from.number);
  if (!frame.has_value()) return std::nullopt;
  return ToByteBuffer(EncodeFramePrefix(frame->header, frame->payload.size()), frame->payload);
}

void FlowStream::Leave(const absl::Status& status) {
  const Place from = place();
  if (from.exchange != nullptr) from.exchange->CloseStream(from.side, from.number, status.ok());
}

std::string FlowStream::LogFields() const {
  MutexLock lock(&mutex_);
  return absl::StrCat("worker=", LogValue(worker_), " frames=", num_messages());
}

}  // namespace sangam
