#include "server/rpc/vote_connection.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/alarm_time.h"
#include "common/rpc/client_stream.h"
#include "common/rpc/completion_queue_thread.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/overload.h"
#include "proto/parameter_service.pb.h"
#include "server/rpc/proto_message.h"
#include "server/runtime/vote_link.h"

namespace sangam {
namespace {

// The longest message is a decision with two doubles for each parameter of the model, of which
// there are fewer than this.
constexpr uint64_t kMaxParameters = 65536 * 8;
constexpr uint64_t kMaxMessageFloats = kMaxParameters * 4;

constexpr char kVoteMethod[] = "/sangam.v1.ParameterService/Vote";

// A stream that was open for this long worked, though there was nothing to decide.
constexpr absl::Duration kWorkingAfter = absl::Seconds(1);

// How long a call that was broken off may take to end.
constexpr absl::Duration kCancelDeadline = absl::Seconds(10);

// How a lost connection or a stopping server shows, or one whose memory was used up. CANCELLED
// comes when the server breaks the call off.
bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) || IsBrokenOffForRoom(status);
}

}  // namespace

VoteConnection::VoteConnection(VoteLinkOptions options, const Patience& patience,
                               std::weak_ptr<VoteSource> source, grpc::CompletionQueue* queue,
                               ActivityCount* activities)
    : options_(std::move(options)),
      patience_(patience),
      generation_(options_.hello.generation()),
      source_(std::move(source)),
      channel_(CreateDataChannel(options_.address, kMaxMessageFloats)),
      queue_(queue),
      activities_(activities),
      backoff_(patience.backoff, options_.hello.incarnation()) {}

std::string VoteConnection::Peer() const {
  return absl::StrCat("server '", options_.server, "' at ", options_.address,
                      ", which counts the votes");
}

void VoteConnection::Open() {
  activities_->Begin();
  MutexLock lock(&mutex_);
  not_working_since_ = Clock::Real().Steady();
  StartStream();
}

void VoteConnection::StartStream() {
  ++tries_;
  opened_at_.reset();
  decision_came_ = false;
  hello_waits_ = true;
  // Nothing of the stream calls back on this thread, so the lock may be held; and its calls on the
  // queue's thread wait until stream_ is set.
  stream_ = ClientStream::Start(channel_, kVoteMethod, queue_, shared_from_this());
}

void VoteConnection::Wake() {
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr) stream->Wake();
}

void VoteConnection::Close() {
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    stream = stream_;
    if (stream == nullptr) alarm_.Cancel();
  }
  if (stream != nullptr) stream->Cancel(absl::CancelledError("the votes are over"));
}

void VoteConnection::OnOpened() {
  MutexLock lock(&mutex_);
  opened_at_ = Clock::Real().Steady();
}

absl::Status VoteConnection::OnMessage(const grpc::ByteBuffer& message) {
  const std::shared_ptr<VoteSource> source = source_.lock();
  if (source == nullptr) return absl::CancelledError("the job is over");
  const absl::Status status = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const v1::StepDecision decision, ParseMessage<v1::StepDecision>(message));
    return source->OnDecision(decision);
  }();
  MutexLock lock(&mutex_);
  if (status.ok()) {
    decision_came_ = true;
    backoff_.Reset();
  } else if (!fault_.has_value()) {
    fault_ = WithContext(status, Peer());
  }
  return status;
}

std::optional<grpc::ByteBuffer> VoteConnection::NextMessage() {
  const std::shared_ptr<VoteSource> source = source_.lock();
  if (source == nullptr) return std::nullopt;
  bool hello;
  {
    MutexLock lock(&mutex_);
    hello = std::exchange(hello_waits_, false);
  }
  if (hello) {
    source->SendAgain(generation_);
    return SerializeMessage(options_.hello);
  }
  const std::optional<v1::StepVotes> votes = source->NextVotes(generation_);
  if (!votes.has_value()) return std::nullopt;
  return SerializeMessage(*votes);
}

void VoteConnection::OnFinished(const absl::Status& status) {
  absl::Status end;
  {
    MutexLock lock(&mutex_);
    stream_ = nullptr;
    if (fault_.has_value()) {
      end = *fault_;
    } else if (!closed_ && !source_.expired()) {
      end = TryAgain(status.ok() ? absl::UnavailableError("the server ended the stream") : status);
      if (end.ok()) return;
    }
  }
  End(end);
}

absl::Status VoteConnection::TryAgain(const absl::Status& status) {
  const absl::Duration now = Clock::Real().Steady();
  if (!IsRetryable(status)) return WithContext(status, Peer());
  if (decision_came_ || (opened_at_.has_value() && now - *opened_at_ >= kWorkingAfter)) {
    not_working_since_ = now;
    tries_ = 0;
    backoff_.Reset();
  }
  const absl::Duration left = patience_.connect_deadline - (now - not_working_since_);
  if (left <= absl::ZeroDuration()) {
    return absl::UnavailableError(absl::StrCat(
        Peer(), ": no working stream for ",
        absl::FormatDuration(absl::Trunc(now - not_working_since_, absl::Milliseconds(1))),
        ", tried ", tries_, " times, the last one failed with ", status.ToString()));
  }
  const absl::Duration delay = std::min(backoff_.Next(), left);
  LogWarning(
      "vote stream lost, trying again", "job=%d server=%s address=%s tries=%d delay=%s status=%s",
      options_.hello.job(), LogValue(options_.server), LogValue(options_.address), tries_,
      absl::FormatDuration(absl::Trunc(delay, absl::Milliseconds(1))), LogValue(status.ToString()));
  alarm_.Set(queue_, AlarmTimeAfter(delay), alarm_tag_.Arm(shared_from_this()));
  return absl::OkStatus();
}

void VoteConnection::OnAlarm(bool /*ok*/) {
  {
    MutexLock lock(&mutex_);
    if (!closed_) {
      StartStream();
      return;
    }
  }
  End(absl::OkStatus());
}

void VoteConnection::End(const absl::Status& status) {
  if (!status.ok()) {
    if (const auto source = source_.lock()) source->OnLinkFailed(generation_, status);
  }
  // The last thing: whoever waits for it may destroy the queue.
  activities_->End();
}

VoteConnections::VoteConnections(const VoteConnection::Patience& patience)
    : patience_(patience), thread_(std::make_unique<grpc::CompletionQueue>()) {
  thread_.Start();
}

VoteConnections::~VoteConnections() { Stop(); }

std::shared_ptr<VoteLink> VoteConnections::Open(VoteLinkOptions options,
                                                std::weak_ptr<VoteSource> source) {
  auto connection = std::make_shared<VoteConnection>(
      std::move(options), patience_, std::move(source), thread_.queue(), &activities_);
  MutexLock lock(&mutex_);
  if (stopped_) return connection;
  open_.erase(
      std::remove_if(open_.begin(), open_.end(), [](const auto& one) { return one.expired(); }),
      open_.end());
  open_.push_back(connection);
  connection->Open();
  return connection;
}

void VoteConnections::Stop() {
  std::vector<std::weak_ptr<VoteConnection>> open;
  {
    MutexLock lock(&mutex_);
    if (stopped_) return;
    stopped_ = true;
    open.swap(open_);
  }
  for (const std::weak_ptr<VoteConnection>& one : open) {
    if (const auto connection = one.lock()) connection->Close();
  }
  SANGAM_CHECK(activities_.WaitForNone(kCancelDeadline));
  thread_.Shutdown();
}

}  // namespace sangam
