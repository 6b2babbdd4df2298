#include "common/rpc/call_registry.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace sangam {

absl::Status CallRegistry::Add(std::shared_ptr<ServedCall> call) {
  MutexLock lock(&mutex_);
  const ServedCall* key = call.get();
  calls_.emplace(key, std::move(call));
  if (!stopped_.ok()) return stopped_;
  if (calls_.size() > max_calls_) {
    CountRefusal(counts_, Refusal::kCalls);
    return absl::ResourceExhaustedError(
        absl::StrCat("found ", calls_.size(), " calls, expected at most ", max_calls_, " at once"));
  }
  return absl::OkStatus();
}

void CallRegistry::Remove(const ServedCall* call) {
  std::shared_ptr<ServedCall> removed;  // destroyed without the lock
  MutexLock lock(&mutex_);
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  removed = std::move(found->second);
  calls_.erase(found);
  for (auto claim = claims_.begin(); claim != claims_.end();) {
    claim = claim->second.call == call ? claims_.erase(claim) : std::next(claim);
  }
}

absl::Status CallRegistry::Claim(const ServedCall* call, uint64_t job, uint64_t generation,
                                 uint32_t source, uint64_t incarnation) {
  std::shared_ptr<ServedCall> replaced;
  {
    MutexLock lock(&mutex_);
    Claimant& claimant = claims_[{job, generation, source}];
    if (claimant.call != nullptr && claimant.incarnation > incarnation) {
      return absl::AbortedError(absl::StrCat("incarnation of worker ", source, ": found ",
                                             incarnation, ", expected at least ",
                                             claimant.incarnation, ", which has a stream already"));
    }
    if (const auto found = calls_.find(claimant.call); found != calls_.end()) {
      replaced = found->second;
    }
    claimant = {call, incarnation};
  }
  if (replaced != nullptr) {
    replaced->End(absl::AbortedError(
        absl::StrCat("a newer stream of worker ", source, " has taken the place of this one")));
  }
  return absl::OkStatus();
}

void CallRegistry::EndAll(const absl::Status& error) {
  std::vector<std::shared_ptr<ServedCall>> calls;
  {
    MutexLock lock(&mutex_);
    stopped_ = error;
    for (const auto& [key, call] : calls_) calls.push_back(call);
  }
  for (const std::shared_ptr<ServedCall>& call : calls) call->End(error);
}

void CallRegistry::CheckAll(absl::Duration now) {
  std::vector<std::shared_ptr<ServedCall>> calls;
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, call] : calls_) calls.push_back(call);
  }
  for (const std::shared_ptr<ServedCall>& call : calls) call->Check(now);
}

}  // namespace sangam
