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
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/server_stream.h"
#include "common/tensor/frame_codec.h"
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"
#include "worker/runtime/flow_exchange.h"

namespace sangam {

FlowStream::FlowStream(const FlowCallContext* context, std::shared_ptr<ServerStream> stream)
    : context_(*context), stream_(std::move(stream)) {}

FlowStream::Place FlowStream::place() const {
  MutexLock lock(&mutex_);
  if (phase_ == Phase::kNew) return Place{};
  return {exchange_.lock(), side_, number_};
}

absl::Status FlowStream::OnMessage(const grpc::ByteBuffer& message) {
  ++num_frames_;
  Phase phase;
  {
    MutexLock lock(&mutex_);
    phase = phase_;
  }
  if (phase == Phase::kEnding) return absl::OkStatus();
  absl::Status status = [&]() -> absl::Status {
    if (message.Length() > context_.max_message_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("found a message of ", message.Length(),
                                                       " bytes, expected at most ",
                                                       context_.max_message_bytes));
    }
    ASSIGN_OR_RETURN(const SlicePayload bytes, FromByteBuffer(message));
    ASSIGN_OR_RETURN(const Frame frame, DecodeFrame(bytes));
    if (phase == Phase::kNew) return OnHello(frame);
    const Place to = place();
    if (to.exchange == nullptr) {
      return absl::UnavailableError("this worker has ended its part in the job");
    }
    return to.exchange->OnFrame(to.side, to.number, frame.header, frame.payload);
  }();
  if (status.ok()) return status;
  SetEnding();
  return WithContext(status, absl::StrCat("frame ", num_frames_, " of the stream"));
}

absl::Status FlowStream::OnHello(const Frame& frame) {
  if (frame.header.kind() != v1::FRAME_KIND_HELLO) {
    return absl::InvalidArgumentError(absl::StrCat("kind: found ",
                                                   v1::FrameKind_Name(frame.header.kind()),
                                                   ", expected FRAME_KIND_HELLO as the first"));
  }
  ASSIGN_OR_RETURN(const v1::StreamHello hello, DecodeHello(frame.payload));
  ASSIGN_OR_RETURN(const std::shared_ptr<FlowExchange> exchange,
                   context_.jobs->Find(frame.header.job()));
  ASSIGN_OR_RETURN(const size_t side, exchange->CheckHello(frame.header, hello));
  RETURN_IF_ERROR(context_.registry->Claim(this, frame.header.job(), frame.header.generation(),
                                           frame.header.source(), hello.incarnation()));
  ASSIGN_OR_RETURN(const uint64_t number, exchange->OpenStream(side, shared_from_this()));
  LogInfo("flow opened", "job=%d generation=%d worker=%s", exchange->job(), exchange->generation(),
          LogValue(hello.worker()));
  std::shared_ptr<ServerStream> stream;
  {
    MutexLock lock(&mutex_);
    exchange_ = exchange;
    side_ = side;
    number_ = number;
    worker_ = hello.worker();
    if (phase_ == Phase::kNew) phase_ = Phase::kOpen;
    stream = stream_;
  }
  // What waited before there was a stream.
  stream->Wake();
  return absl::OkStatus();
}

std::optional<grpc::ByteBuffer> FlowStream::NextMessage() {
  const Place from = place();
  if (from.exchange == nullptr) return std::nullopt;
  const std::optional<FlowExchange::Frame> frame = from.exchange->NextFrame(from.side, from.number);
  if (!frame.has_value()) return std::nullopt;
  return ToByteBuffer(EncodeFramePrefix(frame->header, frame->payload.size()), frame->payload);
}

void FlowStream::OnHalfClosed() { SetEnding(); }

void FlowStream::SetEnding() {
  MutexLock lock(&mutex_);
  // A stream without HELLO has no exchange, so that place() finds none.
  phase_ = Phase::kEnding;
}

void FlowStream::OnFinished(const absl::Status& status) {
  const Place from = place();
  if (from.exchange != nullptr) from.exchange->CloseStream(from.side, from.number, status.ok());
  std::shared_ptr<ServerStream> stream;
  std::string worker;
  {
    MutexLock lock(&mutex_);
    phase_ = Phase::kEnding;
    stream = std::move(stream_);
    worker = worker_;
  }
  if (status.ok()) {
    LogInfo("flow closed", "worker=%s frames=%d", LogValue(worker), num_frames_);
  } else {
    LogWarning("flow ended", "worker=%s frames=%d peer=%s status=%s", LogValue(worker), num_frames_,
               LogValue(stream->peer()), LogValue(status.ToString()));
  }
  context_.registry->Remove(this);
  context_.activities->End();
}

void FlowStream::Wake() {
  std::shared_ptr<ServerStream> stream;
  {
    MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr) stream->Wake();
}

void FlowStream::End(const absl::Status& error) {
  std::shared_ptr<ServerStream> stream;
  {
    MutexLock lock(&mutex_);
    phase_ = Phase::kEnding;
    stream = stream_;
  }
  if (stream != nullptr) stream->End(error);
}

void FlowStream::Check(absl::Duration now) {
  bool late;
  bool stuck;
  std::shared_ptr<ServerStream> stream;
  {
    MutexLock lock(&mutex_);
    if (!seen_at_.has_value() || seen_phase_ != phase_) {
      seen_phase_ = phase_;
      seen_at_ = now;
    }
    const absl::Duration passed = now - *seen_at_;
    late = phase_ == Phase::kNew && passed >= context_.hello_deadline;
    stuck = phase_ == Phase::kEnding && passed >= context_.end_grace;
    stream = stream_;
  }
  if (stream == nullptr) return;
  if (stuck) stream->Cancel();
  if (late) {
    End(absl::DeadlineExceededError(absl::StrCat("found no HELLO, expected one within ",
                                                 absl::FormatDuration(context_.hello_deadline))));
  }
}

}  // namespace sangam
