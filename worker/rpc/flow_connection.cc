#include "worker/rpc/flow_connection.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/plan/page_map.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/alarm_time.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/client_stream.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/overload.h"
#include "common/tensor/frame_codec.h"
#include "common/tensor/slices.h"
#include "worker/runtime/flow_exchange.h"

namespace sangam {
namespace {

constexpr char kFlowMethod[] = "/sangam.v1.PipelineService/Flow";

// A stream that was open for this long worked, though the other worker had nothing to say.
constexpr absl::Duration kWorkingAfter = absl::Seconds(1);

// The codes by which a lost connection or a stopping worker shows. CANCELLED comes when the other
// side breaks the call off.
bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) || IsBrokenOffForRoom(status);
}

}  // namespace

FlowConnection::FlowConnection(const Options& options, std::shared_ptr<FlowExchange> exchange,
                               size_t side, grpc::CompletionQueue* queue, ActivityCount* activities)
    : options_(options),
      exchange_(std::move(exchange)),
      side_(side),
      channel_(CreateDataChannel(exchange_->sides()[side].address, kPageElements, kDataWorkers)),
      queue_(queue),
      activities_(activities),
      backoff_(options.backoff, exchange_->generation() << 32 | exchange_->worker()) {}

void FlowConnection::Open() {
  activities_->Begin();
  absl::Status started;
  {
    MutexLock lock(&mutex_);
    not_working_since_ = Clock::Real().Steady();
    started = StartStream();
  }
  if (!started.ok()) Finish(absl::OkStatus());
}

absl::Status FlowConnection::StartStream() {
  ASSIGN_OR_RETURN(number_, exchange_->OpenStream(side_, shared_from_this()));
  ++tries_;
  opened_at_.reset();
  frame_came_ = false;
  hello_waits_ = true;
  // Nothing of the stream calls back on this thread, so the lock may be held; and its calls on the
  // queue's thread wait until stream_ is set.
  stream_ = ClientStream::Start(channel_, kFlowMethod, queue_, shared_from_this());
  return absl::OkStatus();
}

void FlowConnection::Wake() {
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr) stream->Wake();
}

void FlowConnection::Close() {
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    stream = stream_;
    // Tries now.
    if (stream == nullptr) alarm_.Cancel();
  }
  if (stream != nullptr) stream->FlushAndHalfClose();
}

absl::Status FlowConnection::closed_with() const {
  MutexLock lock(&mutex_);
  return closed_with_;
}

void FlowConnection::End(const absl::Status& reason) {
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    if (!fault_.has_value()) fault_ = reason;
    stream = stream_;
    if (stream == nullptr) alarm_.Cancel();
  }
  if (stream != nullptr) stream->Cancel(reason);
}

void FlowConnection::OnOpened() {
  MutexLock lock(&mutex_);
  opened_at_ = Clock::Real().Steady();
}

absl::Status FlowConnection::OnMessage(const grpc::ByteBuffer& message) {
  uint64_t number;
  {
    MutexLock lock(&mutex_);
    number = number_;
    frame_came_ = true;
    backoff_.Reset();
  }
  absl::Status status = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const SlicePayload bytes, FromByteBuffer(message));
    ASSIGN_OR_RETURN(const Frame frame, DecodeFrame(bytes));
    return exchange_->OnFrame(side_, number, frame.header, frame.payload);
  }();
  if (!status.ok()) {
    MutexLock lock(&mutex_);
    if (!fault_.has_value()) fault_ = WithContext(status, exchange_->NameOfSide(side_));
  }
  return status;
}

std::optional<grpc::ByteBuffer> FlowConnection::NextMessage() {
  std::optional<FlowExchange::Frame> frame;
  uint64_t number;
  {
    MutexLock lock(&mutex_);
    number = number_;
    if (hello_waits_) frame = exchange_->Hello();
    hello_waits_ = false;
  }
  if (!frame.has_value()) frame = exchange_->NextFrame(side_, number);
  if (!frame.has_value()) return std::nullopt;
  return ToByteBuffer(EncodeFramePrefix(frame->header, frame->payload.size()), frame->payload);
}

void FlowConnection::OnFinished(const absl::Status& status) {
  absl::Status end;
  {
    MutexLock lock(&mutex_);
    stream_ = nullptr;
    if (status.ok() || frame_came_ ||
        (opened_at_.has_value() && Clock::Real().Steady() - *opened_at_ >= kWorkingAfter)) {
      worked_ = true;
      not_working_since_ = Clock::Real().Steady();
      tries_ = 0;
      backoff_.Reset();
    }
    // OK comes from a worker that has read everything up to the half-close. One that does not know
    // the job any more has gone in order too: who waits for a last word from here would know it.
    const bool in_order =
        closing_ && !fault_.has_value() && (status.ok() || (worked_ && absl::IsNotFound(status)));
    exchange_->CloseStream(side_, number_, in_order);
    if (fault_.has_value()) {
      end = *fault_;
    } else if (!in_order) {
      end = TryAgain(status.ok() ? absl::UnavailableError("it ended the stream") : status);
      if (end.ok()) return;
    }
  }
  Finish(end);
}

absl::Status FlowConnection::TryAgain(const absl::Status& status) {
  const absl::Duration now = Clock::Real().Steady();
  const std::string peer = exchange_->NameOfSide(side_);
  // A worker that has forgotten the job has failed or was stopped. The coordinator knows why, and
  // will end the job here too.
  const bool gone = worked_ && absl::IsNotFound(status);
  if (!IsRetryable(status) && !gone) return WithContext(status, peer);
  const absl::Duration left = options_.connect_deadline - (now - not_working_since_);
  if (left <= absl::ZeroDuration() && !closing_ && exchange_->Needs(side_)) {
    return absl::UnavailableError(absl::StrCat(
        peer, ": no working stream for ",
        absl::FormatDuration(absl::Trunc(now - not_working_since_, absl::Milliseconds(1))),
        ", tried ", tries_, " times, the last one failed with ", status.ToString()));
  }
  absl::Duration delay = backoff_.Next();
  if (left > absl::ZeroDuration()) delay = std::min(delay, left);
  LogWarning("flow lost, trying again", "job=%d peer=%s tries=%d delay=%s status=%s",
             exchange_->job(), LogValue(peer), tries_,
             absl::FormatDuration(absl::Trunc(delay, absl::Milliseconds(1))),
             LogValue(status.ToString()));
  alarm_.Set(queue_, AlarmTimeAfter(delay), alarm_tag_.Arm(shared_from_this()));
  return absl::OkStatus();
}

void FlowConnection::OnAlarm(bool /*ok*/) {
  absl::Status end;
  std::shared_ptr<ClientStream> last;
  {
    MutexLock lock(&mutex_);
    if (!fault_.has_value() && StartStream().ok()) {
      if (!closing_) return;
      last = stream_;
    }
    end = fault_.value_or(absl::OkStatus());
  }
  if (last == nullptr) {
    Finish(end);
  } else {
    last->FlushAndHalfClose();
  }
}

void FlowConnection::Finish(const absl::Status& status) {
  bool closing;
  {
    MutexLock lock(&mutex_);
    closing = closing_;
    closed_with_ = status;
  }
  // Without effect when the exchange has ended before. Whoever closes needs this stream no more,
  // but the workers in front may still need theirs.
  if (!status.ok() && !closing) exchange_->Fail(status);
  // The last thing: whoever waits for it may destroy the queue.
  activities_->End();
}

}  // namespace sangam
