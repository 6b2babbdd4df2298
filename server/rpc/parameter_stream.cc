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
#include "common/base/refusal_counts.h"
#include "common/base/status_macros.h"
#include "common/metrics/counters.h"
#include "common/rpc/accepted_stream.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/server_stream.h"
#include "common/security/caller.h"
#include "common/security/identity.h"
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
    : AcceptedStream(context, {"stream", "frame", "HELLO", "/sangam.v1.ParameterService/PushPull"},
                     std::move(stream)),
      context_(*context) {}

absl::Status ParameterStream::OnNext(const grpc::ByteBuffer& message, bool first) {
  if (message.Length() > context_.max_message_bytes) {
    CountRefusal(context_.counts, Refusal::kMessageSize);
    return absl::ResourceExhaustedError(absl::StrCat("found a message of ", message.Length(),
                                                     " bytes, expected at most ",
                                                     context_.max_message_bytes));
  }
  ASSIGN_OR_RETURN(const SlicePayload bytes, FromByteBuffer(message));
  ASSIGN_OR_RETURN(const Frame frame, DecodeFrame(bytes));
  return OnFrame(frame, first);
}

absl::Status ParameterStream::OnFrame(const Frame& frame, bool first) {
  const v1::FrameHeader& header = frame.header;
  if (first) {
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
  RETURN_IF_ERROR(caller().CheckDaemon(Role::kWorker, hello.worker()));
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
  Open();
  return absl::OkStatus();
}

absl::Status ParameterStream::CheckSender(const v1::FrameHeader& header) const {
  if (header.job() != job_) {
    return absl::PermissionDeniedError(
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
  Counters::Add(&ProcessCounters().push_bytes, frame.payload.size());
  return shard->AddGradient(frame.header, WithoutPinnedBlocks(frame.payload));
}

void ParameterStream::Send(const PageWeights& weights) {
  const PageKey key = {weights.header.segment(), weights.header.first_element()};
  PageWeights replaced;  // let go of without the lock
  size_t waiting;
  {
    MutexLock lock(&mutex_);
    if (!is_open()) return;
    // A client that had nothing to read was not idle.
    if (waiting_.empty() && !sending_) NoteProgress();
    const auto [place, added] = waiting_.try_emplace(key, weights);
    if (!added) {
      if (place->second.header.step() >= weights.header.step()) return;
      replaced = std::exchange(place->second, weights);
    }
    waiting = waiting_.size();
  }
  if (waiting > context_.max_waiting_frames) {
    End(absl::ResourceExhaustedError(absl::StrCat("the worker does not read: weights of ", waiting,
                                                  " pages wait for it, expected at most ",
                                                  context_.max_waiting_frames)));
  } else {
    WakeStream();
  }
}

std::optional<grpc::ByteBuffer> ParameterStream::NextMessage() {
  PageWeights weights;
  {
    MutexLock lock(&mutex_);
    NoteProgress();
    sending_ = !waiting_.empty();
    if (!sending_) return std::nullopt;
    weights = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
  }
  Counters::Add(&ProcessCounters().pull_bytes, weights.elements.size());
  return ToByteBuffer(EncodeFramePrefix(weights.header, weights.elements.size()), weights.elements);
}

void ParameterStream::OnHalfClosed() {
  AcceptedStream::OnHalfClosed();
  if (const auto shard = shard_.lock()) shard->Unsubscribe(this);
}

void ParameterStream::Leave(const absl::Status& /*status*/) {
  if (const auto shard = shard_.lock()) shard->Unsubscribe(this);
}

std::string ParameterStream::LogFields() const {
  return absl::StrCat("job=", job_, " worker=", LogValue(worker_), " frames=", num_messages());
}

void ParameterStream::DropWaiting() {
  std::map<PageKey, PageWeights> dropped;  // let go of without the lock
  MutexLock lock(&mutex_);
  dropped.swap(waiting_);
}

absl::Status ParameterStream::Fault(absl::Duration idle) const {
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

}  // namespace sangam
