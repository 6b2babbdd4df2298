#include "common/rpc/stalled_calls.h"

#include <grpcpp/server_context.h>

#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/mutex.h"

namespace sangam {

StalledCalls::Write::Write(StalledCalls* calls, grpc::ServerContext* context, const char* method)
    : calls_(calls) {
  if (calls_ == nullptr) return;
  const absl::Duration now = calls_->clock_.Steady();
  MutexLock lock(&calls_->mutex_);
  number_ = calls_->next_++;
  calls_->writes_[number_] = {context, method, now};
}

StalledCalls::Write::~Write() {
  if (calls_ == nullptr) return;
  MutexLock lock(&calls_->mutex_);
  calls_->writes_.erase(number_);
}

void StalledCalls::Check() {
  const absl::Duration now = clock_.Steady();
  MutexLock lock(&mutex_);
  for (auto& [number, entry] : writes_) {
    if (entry.cancelled || now - entry.began < timeout_) continue;
    entry.cancelled = true;
    CountRefusal(counts_, Refusal::kStalledCall);
    LogWarning("client does not read, its call is cancelled", "method=%s peer=%s idle=%s",
               entry.method, LogValue(entry.context->peer()),
               absl::FormatDuration(now - entry.began));
    // Under the lock, which keeps the context alive: the write's end needs it.
    entry.context->TryCancel();
  }
}

}  // namespace sangam
