#include "worker/rpc/server_connection.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/alarm_time.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/client_stream.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/overload.h"
#include "common/tensor/frame_codec.h"
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"
#include "worker/rpc/gradient_ledger.h"

namespace sangam {
namespace {

constexpr char kPushPullMethod[] = "/sangam.v1.ParameterService/PushPull";

// A stream that was open for this long worked, though the server had nothing to say.
constexpr absl::Duration kWorkingAfter = absl::Seconds(1);

// The codes by which a lost connection or a stopping server shows. CANCELLED comes when the server
// breaks the call off.
bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) || IsBrokenOffForRoom(status);
}

}  // namespace

ServerConnection::ServerConnection(Options options, GradientLedger ledger,
                                   grpc::CompletionQueue* queue, ActivityCount* activities,
                                   ConnectionOwner* owner)
    : options_(std::move(options)),
      channel_(CreateDataChannel(options_.address, options_.page_elements)),
      queue_(queue),
      activities_(activities),
      owner_(owner),
      ledger_(std::move(ledger)),
      backoff_(options_.backoff, options_.hello.incarnation()) {}

std::string ServerConnection::Peer() const {
  return absl::StrCat("server '", options_.server, "' at ", options_.address);
}

void ServerConnection::Open() {
  activities_->Begin();
  MutexLock lock(&mutex_);
  not_working_since_ = Clock::Real().Steady();
  StartStream();
}

void ServerConnection::StartStream() {
  ++tries_;
  opened_at_.reset();
  weights_came_ = false;
  hello_waits_ = true;
  const std::vector<v1::FrameHeader> ranges = ledger_.Subscriptions();
  subscriptions_.assign(ranges.begin(), ranges.end());
  ledger_.SendAgain();
  // Nothing of the stream calls back on this thread, so the lock may be held; and its calls on the
  // queue's thread wait until stream_ is set.
  stream_ = ClientStream::Start(channel_, kPushPullMethod, queue_, shared_from_this());
}

absl::Status ServerConnection::Push(PageGradient gradient) {
  MutexLock lock(&mutex_);
  return ledger_.Add(std::move(gradient));
}

void ServerConnection::Wake() {
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr) stream->Wake();
}

void ServerConnection::Close() {
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    stream = stream_;
    if (stream == nullptr) alarm_.Cancel();
  }
  if (stream != nullptr) stream->HalfClose();
}

void ServerConnection::Abandon(const absl::Status& reason) {
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

void ServerConnection::OnOpened() {
  MutexLock lock(&mutex_);
  opened_at_ = Clock::Real().Steady();
}

absl::Status ServerConnection::OnMessage(const grpc::ByteBuffer& message) {
  absl::Status status = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const SlicePayload bytes, FromByteBuffer(message));
    ASSIGN_OR_RETURN(const Frame frame, DecodeFrame(bytes));
    return OnFrame(frame.header, frame.payload);
  }();
  if (!status.ok()) {
    MutexLock lock(&mutex_);
    if (!fault_.has_value()) fault_ = WithContext(status, Peer());
  }
  return status;
}

absl::Status ServerConnection::OnFrame(const v1::FrameHeader& header,
                                       const SlicePayload& elements) {
  if (header.kind() != v1::FRAME_KIND_WEIGHTS || header.encoding() != v1::ENCODING_FP32) {
    return absl::InvalidArgumentError(absl::StrCat("found a frame of kind ", header.kind(),
                                                   " and encoding ", header.encoding(),
                                                   ", expected WEIGHTS in FP32"));
  }
  if (header.job() != options_.sender.job() ||
      header.generation() != options_.sender.generation()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "found weights of job ", header.job(), ", generation ", header.generation(),
        ", expected job ", options_.sender.job(), ", generation ", options_.sender.generation()));
  }
  {
    MutexLock lock(&mutex_);
    // Let go of answered gradients first: whoever is woken by the weights finds the buffers free.
    ASSIGN_OR_RETURN(const bool wanted, ledger_.OnWeights(header, elements.size()));
    weights_came_ = true;
    backoff_.Reset();
    if (!wanted) return absl::OkStatus();
  }
  return owner_->OnWeights(header, elements);
}

std::optional<grpc::ByteBuffer> ServerConnection::NextMessage() {
  v1::FrameHeader header = options_.sender;
  SlicePayload payload;
  {
    MutexLock lock(&mutex_);
    if (hello_waits_) {
      hello_waits_ = false;
      header.set_kind(v1::FRAME_KIND_HELLO);
      payload = EncodeHello(options_.hello);
    } else if (!subscriptions_.empty()) {
      header.MergeFrom(subscriptions_.front());
      header.set_kind(v1::FRAME_KIND_SUBSCRIBE);
      subscriptions_.pop_front();
    } else if (std::optional<PageGradient> gradient = ledger_.TakeNext()) {
      header.set_kind(v1::FRAME_KIND_GRADIENT);
      header.set_encoding(v1::ENCODING_FP32);
      header.set_step(gradient->step);
      header.set_segment(gradient->page.segment);
      header.set_first_element(gradient->page.first_element);
      header.set_element_count(gradient->page.element_count);
      header.set_span_begin(gradient->span.begin);
      header.set_span_end(gradient->span.end);
      header.set_samples(gradient->samples);
      header.set_use(gradient->use);
      payload = SlicePayload::FromFloats(std::move(gradient->sum), gradient->page.first_element,
                                         gradient->page.element_count);
    } else {
      return std::nullopt;
    }
  }
  return ToByteBuffer(EncodeFramePrefix(header, payload.size()), payload);
}

void ServerConnection::OnFinished(const absl::Status& status) {
  absl::Status end;
  {
    MutexLock lock(&mutex_);
    stream_ = nullptr;
    if (fault_.has_value()) {
      end = *fault_;
    } else if (closing_) {
      end = WithContext(status, Peer());
    } else {
      end = TryAgain(status.ok() ? absl::UnavailableError("the server ended the stream") : status);
      if (end.ok()) return;
    }
  }
  End(end);
}

absl::Status ServerConnection::TryAgain(const absl::Status& status) {
  const absl::Duration now = Clock::Real().Steady();
  if (!IsRetryable(status)) return WithContext(status, Peer());
  if (weights_came_ || (opened_at_.has_value() && now - *opened_at_ >= kWorkingAfter)) {
    not_working_since_ = now;
    tries_ = 0;
    backoff_.Reset();
  }
  const absl::Duration left = options_.connect_deadline - (now - not_working_since_);
  if (left <= absl::ZeroDuration()) {
    return absl::UnavailableError(absl::StrCat(
        Peer(), ": no working stream for ",
        absl::FormatDuration(absl::Trunc(now - not_working_since_, absl::Milliseconds(1))),
        ", tried ", tries_, " times, the last one failed with ", status.ToString()));
  }
  const absl::Duration delay = std::min(backoff_.Next(), left);
  LogWarning("stream lost, trying again", "job=%d server=%s address=%s tries=%d delay=%s status=%s",
             options_.sender.job(), LogValue(options_.server), LogValue(options_.address), tries_,
             absl::FormatDuration(absl::Trunc(delay, absl::Milliseconds(1))),
             LogValue(status.ToString()));
  alarm_.Set(queue_, AlarmTimeAfter(delay), alarm_tag_.Arm(shared_from_this()));
  return absl::OkStatus();
}

void ServerConnection::OnAlarm(bool /*ok*/) {
  absl::Status end;
  {
    MutexLock lock(&mutex_);
    if (!closing_) {
      StartStream();
      return;
    }
    end = fault_.value_or(absl::OkStatus());
  }
  End(end);
}

void ServerConnection::End(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    ledger_.Clear();
  }
  owner_->OnConnectionEnded(status);
  // The last thing: whoever waits for it may destroy owner and queue.
  activities_->End();
}

}  // namespace sangam
