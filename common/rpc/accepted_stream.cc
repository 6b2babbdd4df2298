#include "common/rpc/accepted_stream.h"

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/metrics/call_counts.h"
#include "common/metrics/counters.h"
#include "common/rpc/process_credentials.h"
#include "common/rpc/server_stream.h"

namespace sangam {

AcceptedStream::AcceptedStream(const AcceptedStreamOptions* options, const Words& words,
                               std::shared_ptr<ServerStream> stream)
    : options_(*options),
      words_(words),
      begin_(Clock::Real().Steady()),
      caller_(CallerIdentity(std::as_const(*stream).context())),
      stream_(std::move(stream)) {}

absl::Status AcceptedStream::OnMessage(const grpc::ByteBuffer& message) {
  ++num_messages_;
  bool first;
  {
    MutexLock lock(&mutex_);
    if (phase_ == Phase::kEnded) return absl::OkStatus();
    first = phase_ == Phase::kNew;
    ++progress_;
  }
  const absl::Status status = OnNext(message, first);
  if (status.ok()) return status;
  if (absl::IsAborted(status)) Counters::Add(&ProcessCounters().fenced_frames, 1);
  SetEnded();
  return WithContext(status, absl::StrCat(words_.message, " ", num_messages_, " of the stream"));
}

absl::Status AcceptedStream::Fault(absl::Duration /*idle*/) const { return absl::OkStatus(); }

void AcceptedStream::Leave(const absl::Status& /*status*/) {}

void AcceptedStream::Open() {
  if (phase_ == Phase::kNew) phase_ = Phase::kOpen;
}

void AcceptedStream::OnHalfClosed() {
  MutexLock lock(&mutex_);
  if (phase_ != Phase::kEnded) phase_ = Phase::kHalfClosed;
  ++progress_;
}

void AcceptedStream::OnFinished(const absl::Status& status) {
  SetEnded();
  // No interceptor sees these calls (call_observer.h).
  ProcessCalls().Add(words_.method, absl::StatusCodeToString(status.code()),
                     Clock::Real().Steady() - begin_);
  Leave(status);
  std::shared_ptr<ServerStream> stream;
  {
    MutexLock lock(&mutex_);
    stream = std::move(stream_);
  }
  if (absl::IsPermissionDenied(status)) {
    CountRefusal(options_.counts, Refusal::kRights);
    Audit(std::as_const(*stream).context(), words_.method, "", status);
  }
  if (status.ok()) {
    Log(LogLevel::kInfo, absl::StrCat(words_.stream, " closed"), LogFields());
  } else {
    LogWarning(absl::StrCat(words_.stream, " ended"), "%s peer=%s status=%s", LogFields(),
               LogValue(stream->peer()),
               LogValue(status.ToString(absl::StatusToStringMode::kWithNoExtraData)));
  }
  options_.registry->Remove(this);
  options_.activities->End();
}

void AcceptedStream::End(const absl::Status& error) {
  SetEnded();
  if (const std::shared_ptr<ServerStream> still = stream()) still->End(error);
}

void AcceptedStream::WakeStream() {
  if (const std::shared_ptr<ServerStream> still = stream()) still->Wake();
}

void AcceptedStream::SetEnded() {
  {
    MutexLock lock(&mutex_);
    if (phase_ != Phase::kEnded) ++progress_;
    phase_ = Phase::kEnded;
  }
  DropWaiting();
}

std::shared_ptr<ServerStream> AcceptedStream::stream() const {
  MutexLock lock(&mutex_);
  return stream_;
}

void AcceptedStream::Check(absl::Duration now) {
  absl::Status fault;
  bool stuck;
  {
    MutexLock lock(&mutex_);
    if (stream_ == nullptr) return;
    if (!seen_at_.has_value() || seen_progress_ != progress_) {
      seen_progress_ = progress_;
      seen_at_ = now;
    }
    const absl::Duration idle = now - *seen_at_;
    if (phase_ == Phase::kNew && idle >= options_.hello_deadline) {
      fault = absl::DeadlineExceededError(
          absl::StrCat("found no ", words_.first_message, ", expected one within ",
                       absl::FormatDuration(options_.hello_deadline)));
    } else if (phase_ == Phase::kOpen) {
      fault = Fault(idle);
    }
    const bool ending = phase_ == Phase::kHalfClosed || phase_ == Phase::kEnded;
    stuck = ending && idle >= options_.end_grace && !cancelled_;
    if (stuck) cancelled_ = true;
  }
  if (stuck) {
    if (const std::shared_ptr<ServerStream> still = stream()) {
      CountRefusal(options_.counts, Refusal::kStalledCall);
      LogWarning(absl::StrCat(words_.stream, " is cancelled, the client does not read its end"),
                 "peer=%s", LogValue(still->peer()));
      still->Cancel();
    }
  }
  if (fault.ok()) return;
  if (absl::IsDeadlineExceeded(fault)) CountRefusal(options_.counts, Refusal::kMissingMessage);
  if (absl::IsResourceExhausted(fault)) CountRefusal(options_.counts, Refusal::kStalledCall);
  End(fault);
}

}  // namespace sangam
