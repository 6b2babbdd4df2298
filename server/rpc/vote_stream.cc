#include "server/rpc/vote_stream.h"

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/accepted_stream.h"
#include "common/rpc/server_stream.h"
#include "common/security/caller.h"
#include "common/security/identity.h"
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
    : AcceptedStream(context,
                     {"vote stream", "message", "message", "/sangam.v1.ParameterService/Vote"},
                     std::move(stream)),
      context_(*context) {}

absl::Status VoteStream::OnNext(const grpc::ByteBuffer& message, bool first) {
  ASSIGN_OR_RETURN(const v1::StepVotes votes, ParseMessage<v1::StepVotes>(message));
  return first ? OnHello(votes) : OnVotes(votes);
}

absl::Status VoteStream::OnHello(const v1::StepVotes& hello) {
  if (hello.page_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page: found ", hello.page_size(), " in the first message, expected none"));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<VoteCounter> counter, context_.find_counter(hello.job()));
  RETURN_IF_ERROR(caller().CheckDaemon(Role::kServer, counter->NameOf(hello.server())));
  job_ = hello.job();
  server_ = hello.server();
  counter_ = counter;
  {
    MutexLock lock(&mutex_);
    Open();
    if (!is_open()) return absl::OkStatus();
  }
  RETURN_IF_ERROR(counter->AddVoter(hello, shared_from_this()));
  return context_.registry->Claim(this, job_, hello.generation(), kFirstServerSource + server_,
                                  hello.incarnation());
}

absl::Status VoteStream::OnVotes(const v1::StepVotes& votes) {
  if (votes.job() != job_) {
    return absl::PermissionDeniedError(
        absl::StrCat("found votes of job ", votes.job(), " on a stream of job ", job_));
  }
  if (votes.server() != server_) {
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
  {
    MutexLock lock(&mutex_);
    if (!is_open()) return;
    // A server that had nothing to read was not idle.
    if (waiting_.empty() && !sending_) NoteProgress();
    // Votes that come again are answered again; one answer is enough.
    const bool waits = std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& other) {
      return other->step() == decision->step() && other->round() == decision->round();
    });
    if (waits) return;
    if (waiting_.size() >= kMaxWaiting) waiting_.pop_front();
    waiting_.push_back(std::move(decision));
  }
  WakeStream();
}

std::optional<grpc::ByteBuffer> VoteStream::NextMessage() {
  std::shared_ptr<const v1::StepDecision> decision;
  {
    MutexLock lock(&mutex_);
    NoteProgress();
    sending_ = !waiting_.empty();
    if (!sending_) return std::nullopt;
    decision = std::move(waiting_.front());
    waiting_.pop_front();
  }
  return SerializeMessage(*decision);
}

void VoteStream::OnHalfClosed() { SetEnded(); }

void VoteStream::Leave(const absl::Status& /*status*/) {
  if (const auto counter = counter_.lock()) counter->RemoveVoter(this);
}

std::string VoteStream::LogFields() const {
  return absl::StrCat("job=", job_, " server=", server_);
}

void VoteStream::DropWaiting() {
  MutexLock lock(&mutex_);
  waiting_.clear();
}

absl::Status VoteStream::Fault(absl::Duration idle) const {
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

}  // namespace sangam
