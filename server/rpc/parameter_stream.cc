#include "server/rpc/parameter_stream.h"

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <map>
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
#include "server/runtime/parameter_shard.h"

namespace sangam {
namespace {

std::string KindName(v1::FrameKind kind) {
  const std::string name = v1::FrameKind_Name(kind);
  return name.empty() ? absl::StrCat(static_cast<int>(kind)) : name;
}

}  // namespace

ParameterStream::ParameterStream(const ParameterCallContext* context,
                                 std::shared_ptr<ServerStream> stream)
    : context_(*context), stream_(std::move(stream)) {}

absl::Status ParameterStream::OnMessage(const grpc::ByteBuffer& message) {
  ++num_frames_;
  {
    MutexLock lock(&mutex_);
    if (phase_ == Phase::kEnded) return absl::OkStatus();
    if (phase_ == Phase::kOpen) ++progress_;
  }
  absl::Status status = [&]() -> absl::Status {
    if (message.Length() > context_.max_message_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("found a message of ", message.Length(),
                                                       " bytes, expected at most ",
                                                       context_.max_message_bytes));
    }
    ASSIGN_OR_RETURN(const SlicePayload bytes, FromByteBuffer(message));
    ASSIGN_OR_RETURN(const Frame frame, DecodeFrame(bytes));
    return OnFrame(frame);
  }();
  if (status.ok()) return status;
  DropWaiting();
  return WithContext(status, absl::StrCat("frame ", num_frames_, " of the stream"));
}

absl::Status ParameterStream::OnFrame(const Frame& frame) {
  const v1::FrameHeader& header = frame.header;
  bool greeted;
  {
    MutexLock lock(&mutex_);
    greeted = phase_ != Phase::kNew;
  }
  if (!greeted) {
    if (header.kind() == v1::FRAME_KIND_HELLO) return OnHello(frame);
    return absl::InvalidArgumentError(absl::StrCat(
        "kind: found ", KindName(header.kind()), ", expected FRAME_KIND_HELLO as the first frame"));
  }
  RETURN_IF_ERROR(CheckSender(header));
  switch (header.kind()) {
    case v1::FRAME_KIND_SUBSCRIBE:
      return OnSubscribe(frame);
    case v1::FRAME_KIND_GRADIENT:
      return OnGradient(frame);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("kind: found ", KindName(header.kind()),
                       ", expected FRAME_KIND_SUBSCRIBE or FRAME_KIND_GRADIENT after the HELLO"));
  }
}

absl::Status ParameterStream::OnHello(const Frame& frame) {
  ASSIGN_OR_RETURN(const v1::StreamHello hello, DecodeHello(frame.payload));
  ASSIGN_OR_RETURN(const std::shared_ptr<ParameterShard> shard,
                   context_.find_shard(frame.header.job()));
  RETURN_IF_ERROR(shard->CheckHello(frame.header, hello));
  RETURN_IF_ERROR(context_.registry->Claim(this, frame.header.job(), frame.header.generation(),
                                           frame.header.source(), hello.incarnation()));
  job_ = frame.header.job();
  source_ = frame.header.source();
  worker_ = hello.worker();
  shard_ = shard;
  LogInfo("stream opened", "job=%d generation=%d worker=%s source=%d", job_,
          frame.header.generation(), LogValue(worker_), source_);
  MutexLock lock(&mutex_);
  if (phase_ == Phase::kNew) phase_ = Phase::kOpen;
  return absl::OkStatus();
}

absl::Status ParameterStream::CheckSender(const v1::FrameHeader& header) const {
  if (header.job() != job_) {
    return absl::InvalidArgumentError(
        absl::StrCat("job: found ", header.job(), ", expected ", job_, " as in the HELLO"));
  }
  if (header.source() != source_) {
    return absl::InvalidArgumentError(absl::StrCat("source: found ", header.source(), ", expected ",
                                                   source_, " as in the HELLO"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<ParameterShard>> ParameterStream::LockShard() const {
  std::shared_ptr<ParameterShard> shard = shard_.lock();
  if (shard == nullptr) {
    return absl::NotFoundError(absl::StrCat("this server no longer holds job ", job_));
  }
  return shard;
}

absl::Status ParameterStream::OnSubscribe(const Frame& frame) {
  if (frame.payload.size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("payload of SUBSCRIBE: found ",
                                                   frame.payload.size(), " bytes, expected none"));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<ParameterShard> shard, LockShard());
  return shard->Subscribe(frame.header, shared_from_this());
}

absl::Status ParameterStream::OnGradient(const Frame& frame) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ParameterShard> shard, LockShard());
  return shard->AddGradient(frame.header, WithoutPinnedBlocks(frame.payload));
}

void ParameterStream::Send(const PageWeights& weights) {
  const PageKey key = {weights.header.segment(), weights.header.first_element()};
  PageWeights replaced;  // let go of without the lock
  std::shared_ptr<ServerStream> stream;
  size_t waiting;
  {
    MutexLock lock(&mutex_);
    if (phase_ != Phase::kOpen) return;
    // A client that had nothing to read was not idle.
    if (waiting_.empty() && !sending_) ++progress_;
    const auto [place, added] = waiting_.try_emplace(key, weights);
    if (!added) {
      if (place->second.header.step() >= weights.header.step()) return;
      replaced = std::exchange(place->second, weights);
    }
    waiting = waiting_.size();
    stream = stream_;
  }
  if (waiting > context_.max_waiting_frames) {
    End(absl::ResourceExhaustedError(absl::StrCat("the worker does not read: weights of ", waiting,
                                                  " pages wait for it, expected at most ",
                                                  context_.max_waiting_frames)));
  } else {
    stream->Wake();
  }
}

std::optional<grpc::ByteBuffer> ParameterStream::NextMessage() {
  PageWeights weights;
  {
    MutexLock lock(&mutex_);
    ++progress_;
    sending_ = !waiting_.empty();
    if (!sending_) return std::nullopt;
    weights = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
  }
  return ToByteBuffer(EncodeFramePrefix(weights.header, weights.elements.size()), weights.elements);
}

void ParameterStream::OnHalfClosed() {
  {
    MutexLock lock(&mutex_);
    if (phase_ != Phase::kEnded) phase_ = Phase::kHalfClosed;
    ++progress_;
  }
  if (const auto shard = shard_.lock()) shard->Unsubscribe(this);
}

void ParameterStream::OnFinished(const absl::Status& status) {
  if (const auto shard = shard_.lock()) shard->Unsubscribe(this);
  DropWaiting();
  std::shared_ptr<ServerStream> stream;
  {
    MutexLock lock(&mutex_);
    stream = std::move(stream_);
  }
  if (status.ok()) {
    LogInfo("stream closed", "job=%d worker=%s frames=%d", job_, LogValue(worker_), num_frames_);
  } else {
    LogWarning("stream ended", "job=%d worker=%s frames=%d peer=%s status=%s", job_,
               LogValue(worker_), num_frames_, LogValue(stream->peer()),
               LogValue(status.ToString()));
  }
  context_.registry->Remove(this);
  context_.activities->End();
}

void ParameterStream::End(const absl::Status& error) {
  DropWaiting();
  std::shared_ptr<ServerStream> stream;
  {
    MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr) stream->End(error);
}

void ParameterStream::DropWaiting() {
  std::map<PageKey, PageWeights> dropped;  // let go of without the lock
  MutexLock lock(&mutex_);
  if (phase_ != Phase::kEnded) ++progress_;
  phase_ = Phase::kEnded;
  dropped.swap(waiting_);
}

absl::Status ParameterStream::Fault(absl::Duration idle) const {
  if (phase_ == Phase::kNew && idle >= context_.hello_deadline) {
    return absl::DeadlineExceededError(absl::StrCat("found no HELLO, expected one within ",
                                                    absl::FormatDuration(context_.hello_deadline)));
  }
  if (phase_ != Phase::kOpen) return absl::OkStatus();
  if (shard_.expired()) {
    return absl::NotFoundError(absl::StrCat("this server no longer holds job ", job_));
  }
  if ((sending_ || !waiting_.empty()) && idle >= context_.stall_deadline) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the worker does not read: it has let nothing through for ", absl::FormatDuration(idle),
        ", and weights of ", waiting_.size(), " more pages wait for it"));
  }
  return absl::OkStatus();
}

void ParameterStream::Check(absl::Duration now) {
  absl::Status fault;
  bool stuck;
  std::shared_ptr<ServerStream> stream;
  {
    MutexLock lock(&mutex_);
    if (!seen_at_.has_value() || seen_progress_ != progress_) {
      seen_progress_ = progress_;
      seen_at_ = now;
    }
    const absl::Duration idle = now - *seen_at_;
    fault = Fault(idle);
    stuck = (phase_ == Phase::kHalfClosed || phase_ == Phase::kEnded) && idle >= context_.end_grace;
    stream = stream_;
  }
  if (stream == nullptr) return;
  if (stuck) stream->Cancel();
  if (!fault.ok()) End(fault);
}

}  // namespace sangam
