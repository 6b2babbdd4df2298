#include "server/rpc/vote_stream.h"

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/server_stream.h"
#include "proto/parameter_service.pb.h"
#include "server/rpc/proto_message.h"
#include "server/runtime/vote_link.h"

namespace sangam {
namespace {

// The counter keeps the decisions of two steps; more of them cannot be of use.
constexpr size_t kMaxWaiting = 16;

// Claims of servers, apart from those of the workers.
constexpr uint32_t kFirstServerSource = uint32_t{1} << 31;

}  // namespace

VoteStream::VoteStream(const VoteCallContext* context, std::shared_ptr<ServerStream> stream)
    : context_(*context), stream_(std::move(stream)) {}

absl::Status VoteStream::OnMessage(const grpc::ByteBuffer& message) {
  Phase phase;
  {
    MutexLock lock(&mutex_);
    phase = phase_;
    ++progress_;
  }
  if (phase == Phase::kEnded) return absl::OkStatus();
  const absl::Status status = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const v1::StepVotes votes, ParseMessage<v1::StepVotes>(message));
    return phase == Phase::kNew ? OnHello(votes) : OnVotes(votes);
  }();
  if (!status.ok()) DropWaiting();
  return status;
}

absl::Status VoteStream::OnHello(const v1::StepVotes& hello) {
  if (hello.page_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page: found ", hello.page_size(), " in the first message, expected none"));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<VoteCounter> counter, context_.find_counter(hello.job()));
  job_ = hello.job();
  server_ = hello.server();
  counter_ = counter;
  {
    MutexLock lock(&mutex_);
    if (phase_ != Phase::kNew) return absl::OkStatus();
    phase_ = Phase::kOpen;
  }
  RETURN_IF_ERROR(counter->AddVoter(hello, shared_from_this()));
  return context_.registry->Claim(this, job_, hello.generation(), kFirstServerSource + server_,
                                  hello.incarnation());
}

absl::Status VoteStream::OnVotes(const v1::StepVotes& votes) {
  if (votes.job() != job_ || votes.server() != server_) {
    return absl::InvalidArgumentError(absl::StrCat("found votes of job ", votes.job(), ", server ",
                                                   votes.server(), " on a stream of job ", job_,
                                                   ", server ", server_));
  }
  const std::shared_ptr<VoteCounter> counter = counter_.lock();
  if (counter == nullptr) {
    return absl::NotFoundError(absl::StrCat("this server no longer holds job ", job_));
  }
  return counter->AddVotes(votes, shared_from_this());
}

void VoteStream::Send(std::shared_ptr<const v1::StepDecision> decision) {
  std::shared_ptr<ServerStream> stream;
  {
    MutexLock lock(&mutex_);
    if (phase_ != Phase::kOpen) return;
    // A server that had nothing to read was not idle.
    if (waiting_.empty() && !sending_) ++progress_;
    // Votes that come again are answered again; one answer is enough.
    const bool waits = std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& other) {
      return other->step() == decision->step() && other->round() == decision->round();
    });
    if (waits) return;
    if (waiting_.size() >= kMaxWaiting) waiting_.pop_front();
    waiting_.push_back(std::move(decision));
    stream = stream_;
  }
  stream->Wake();
}

std::optional<grpc::ByteBuffer> VoteStream::NextMessage() {
  std::shared_ptr<const v1::StepDecision> decision;
  {
    MutexLock lock(&mutex_);
    ++progress_;
    sending_ = !waiting_.empty();
    if (!sending_) return std::nullopt;
    decision = std::move(waiting_.front());
    waiting_.pop_front();
  }
  return SerializeMessage(*decision);
}

void VoteStream::OnHalfClosed() { DropWaiting(); }

void VoteStream::OnFinished(const absl::Status& status) {
  DropWaiting();
  if (const auto counter = counter_.lock()) counter->RemoveVoter(this);
  std::shared_ptr<ServerStream> stream;
  {
    MutexLock lock(&mutex_);
    stream = std::move(stream_);
  }
  if (status.ok()) {
    LogInfo("vote stream closed", "job=%d server=%d", job_, server_);
  } else {
    LogWarning("vote stream ended", "job=%d server=%d peer=%s status=%s", job_, server_,
               LogValue(stream->peer()), LogValue(status.ToString()));
  }
  context_.registry->Remove(this);
  context_.activities->End();
}

void VoteStream::End(const absl::Status& error) {
  DropWaiting();
  std::shared_ptr<ServerStream> stream;
  {
    MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr) stream->End(error);
}

void VoteStream::DropWaiting() {
  MutexLock lock(&mutex_);
  if (phase_ != Phase::kEnded) ++progress_;
  phase_ = Phase::kEnded;
  waiting_.clear();
}

absl::Status VoteStream::Fault(absl::Duration idle) const {
  if (phase_ == Phase::kNew && idle >= context_.hello_deadline) {
    return absl::DeadlineExceededError(absl::StrCat("found no message, expected one within ",
                                                    absl::FormatDuration(context_.hello_deadline)));
  }
  if (phase_ != Phase::kOpen) return absl::OkStatus();
  if (counter_.expired()) {
    return absl::NotFoundError(absl::StrCat("this server no longer holds job ", job_));
  }
  if ((sending_ || !waiting_.empty()) && idle >= context_.stall_deadline) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server does not read: it has let nothing through for ",
                     absl::FormatDuration(idle), ", and ", waiting_.size(), " decisions wait"));
  }
  return absl::OkStatus();
}

void VoteStream::Check(absl::Duration now) {
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
    stuck = phase_ == Phase::kEnded && idle >= context_.end_grace;
    stream = stream_;
  }
  if (stream == nullptr) return;
  if (stuck) stream->Cancel();
  if (!fault.ok()) End(fault);
}

}  // namespace sangam
