#ifndef SANGAM_WORKER_RPC_FLOW_REGISTRY_H_
#define SANGAM_WORKER_RPC_FLOW_REGISTRY_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "worker/runtime/flow_exchange.h"

namespace sangam {

// Where the streams of other workers find the job that they are for. Thread-safe.
class FlowRegistry {
 public:
  // Errors: AlreadyExists  the worker has prepared the job before and has not let go of it
  absl::Status Add(const std::shared_ptr<FlowExchange>& exchange);
  // Without effect when another one stands in its place.
  void Remove(const FlowExchange* exchange);

  // Errors: NotFound  the worker has no part in this job
  absl::StatusOr<std::shared_ptr<FlowExchange>> Find(uint64_t job) const;

 private:
  mutable Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<FlowExchange>> exchanges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RPC_FLOW_REGISTRY_H_
