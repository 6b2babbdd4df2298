#include "worker/rpc/flow_registry.h"

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "worker/runtime/flow_exchange.h"

namespace sangam {

absl::Status FlowRegistry::Add(const std::shared_ptr<FlowExchange>& exchange) {
  MutexLock lock(&mutex_);
  const auto [place, added] = exchanges_.emplace(exchange->job(), exchange);
  if (added) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "job ", exchange->job(), ": generation ", place->second->generation(),
      " of it is prepared here, expected none besides generation ", exchange->generation()));
}

void FlowRegistry::Remove(const FlowExchange* exchange) {
  MutexLock lock(&mutex_);
  const auto found = exchanges_.find(exchange->job());
  if (found != exchanges_.end() && found->second.get() == exchange) exchanges_.erase(found);
}

absl::StatusOr<std::shared_ptr<FlowExchange>> FlowRegistry::Find(uint64_t job) const {
  MutexLock lock(&mutex_);
  const auto found = exchanges_.find(job);
  if (found == exchanges_.end()) {
    return absl::NotFoundError(absl::StrCat("this worker has no part in job ", job));
  }
  return found->second;
}

}  // namespace sangam
