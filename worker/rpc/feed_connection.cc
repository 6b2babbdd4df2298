#include "worker/rpc/feed_connection.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstddef>
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
#include "common/data/batch_id.h"
#include "common/plan/page_map.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/alarm_time.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/client_stream.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/overload.h"
#include "common/tensor/frame_codec.h"
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"
#include "worker/rpc/batch_assembly.h"

namespace sangam {
namespace {

constexpr char kFeedMethod[] = "/sangam.v1.DataService/Feed";

// A stream that was open for this long worked, though nothing was asked of it.
constexpr absl::Duration kWorkingAfter = absl::Seconds(1);

// The codes by which a lost connection or a stopping coordinator shows. CANCELLED comes when it
// breaks the call off.
bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) || IsBrokenOffForRoom(status);
}

}  // namespace

FeedConnection::FeedConnection(Options options, grpc::CompletionQueue* queue,
                               ActivityCount* activities, FeedOwner* owner)
    : options_(std::move(options)),
      channel_(CreateDataChannel(options_.address, kPageElements)),
      queue_(queue),
      activities_(activities),
      owner_(owner),
      backoff_(options_.backoff, options_.hello.incarnation()) {}

std::string FeedConnection::Peer() const {
  return absl::StrCat("data of the coordinator at ", options_.address);
}

void FeedConnection::Open() {
  activities_->Begin();
  MutexLock lock(&mutex_);
  not_working_since_ = Clock::Real().Steady();
  StartStream();
}

void FeedConnection::StartStream() {
  ++tries_;
  opened_at_.reset();
  answer_came_ = false;
  hello_waits_ = true;
  sent_ = 0;
  // Of the others nothing has come.
  if (!requests_.empty()) requests_.front().Restart();
  // Nothing of the stream calls back on this thread, so the lock may be held; and its calls on the
  // queue's thread wait until stream_ is set.
  stream_ = ClientStream::Start(channel_, kFeedMethod, queue_, shared_from_this());
}

bool FeedConnection::Ask(BatchAssembly request) {
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(&mutex_);
    while (!closing_ && !fault_.has_value() && requests_.size() >= options_.max_unanswered) {
      room_.WaitFor(&mutex_, absl::Hours(1));
    }
    if (closing_ || fault_.has_value()) return false;
    requests_.push_back(request);
    stream = stream_;
  }
  if (stream != nullptr) stream->Wake();
  return true;
}

void FeedConnection::Close() {
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    room_.SignalAll();
    stream = stream_;
    if (stream == nullptr) alarm_.Cancel();
  }
  if (stream != nullptr) stream->HalfClose();
}

void FeedConnection::Abandon(const absl::Status& reason) {
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    if (!fault_.has_value()) fault_ = reason;
    room_.SignalAll();
    stream = stream_;
    if (stream == nullptr) alarm_.Cancel();
  }
  if (stream != nullptr) stream->Cancel(reason);
}

void FeedConnection::OnOpened() {
  MutexLock lock(&mutex_);
  opened_at_ = Clock::Real().Steady();
}

absl::Status FeedConnection::OnMessage(const grpc::ByteBuffer& message) {
  absl::Status status = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const SlicePayload bytes, FromByteBuffer(message));
    ASSIGN_OR_RETURN(const Frame frame, DecodeFrame(bytes));
    return OnFrame(frame);
  }();
  if (!status.ok()) {
    MutexLock lock(&mutex_);
    if (!fault_.has_value()) fault_ = WithContext(status, Peer());
  }
  return status;
}

absl::Status FeedConnection::OnFrame(const Frame& frame) {
  const v1::FrameHeader& header = frame.header;
  if (header.job() != options_.sender.job() ||
      header.generation() != options_.sender.generation()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "found samples of job ", header.job(), ", generation ", header.generation(),
        ", expected job ", options_.sender.job(), ", generation ", options_.sender.generation()));
  }
  BatchAssembly* answer = nullptr;
  {
    MutexLock lock(&mutex_);
    if (sent_ == 0) return absl::InvalidArgumentError("found an answer that nobody asked for");
    answer = &requests_.front();
  }
  ASSIGN_OR_RETURN(const bool complete, answer->Add(header, frame.payload));
  if (!complete) return absl::OkStatus();
  owner_->OnAnswered(*answer);
  MutexLock lock(&mutex_);
  requests_.pop_front();
  --sent_;
  answer_came_ = true;
  backoff_.Reset();
  room_.SignalAll();
  return absl::OkStatus();
}

std::optional<grpc::ByteBuffer> FeedConnection::NextMessage() {
  v1::FrameHeader header = options_.sender;
  SlicePayload payload;
  {
    MutexLock lock(&mutex_);
    if (hello_waits_) {
      hello_waits_ = false;
      header.set_kind(v1::FRAME_KIND_HELLO);
      payload = EncodeHello(options_.hello);
    } else if (sent_ < requests_.size()) {
      const BatchId id = requests_[sent_++].id();
      header.set_kind(v1::FRAME_KIND_DATA_REQUEST);
      header.set_step(id.step);
      header.set_micro_batch(id.index);
      header.set_evaluation(id.evaluation);
    } else {
      return std::nullopt;
    }
  }
  return ToByteBuffer(EncodeFramePrefix(header, payload.size()), payload);
}

void FeedConnection::OnFinished(const absl::Status& status) {
  absl::Status end;
  {
    MutexLock lock(&mutex_);
    stream_ = nullptr;
    sent_ = 0;
    if (fault_.has_value()) {
      end = *fault_;
    } else if (closing_) {
      end = WithContext(status, Peer());
    } else {
      end = TryAgain(status.ok() ? absl::UnavailableError("the coordinator ended the stream")
                                 : status);
      if (end.ok()) return;
    }
  }
  End(end);
}

absl::Status FeedConnection::TryAgain(const absl::Status& status) {
  const absl::Duration now = Clock::Real().Steady();
  if (!IsRetryable(status)) return WithContext(status, Peer());
  if (answer_came_ || (opened_at_.has_value() && now - *opened_at_ >= kWorkingAfter)) {
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
  LogWarning("feed lost, trying again", "job=%d address=%s tries=%d delay=%s status=%s",
             options_.sender.job(), LogValue(options_.address), tries_,
             absl::FormatDuration(absl::Trunc(delay, absl::Milliseconds(1))),
             LogValue(status.ToString()));
  alarm_.Set(queue_, AlarmTimeAfter(delay), alarm_tag_.Arm(shared_from_this()));
  return absl::OkStatus();
}

void FeedConnection::OnAlarm(bool /*ok*/) {
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

void FeedConnection::End(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    room_.SignalAll();
  }
  owner_->OnFeedEnded(status);
  // The last thing: whoever waits for it may destroy owner and queue.
  activities_->End();
}

}  // namespace sangam
