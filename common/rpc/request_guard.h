#ifndef SANGAM_COMMON_RPC_REQUEST_GUARD_H_
#define SANGAM_COMMON_RPC_REQUEST_GUARD_H_

#include <grpcpp/server_context.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/memory_budget.h"
#include "common/base/refusal_counts.h"
#include "common/rpc/stalled_calls.h"
#include "google/protobuf/message_lite.h"

namespace sangam {

// What bounds the calls of a synchronous service; each pointer may be nullptr.
struct CallLimits {
  MemoryBudget* budget = nullptr;
  StalledCalls* stalled = nullptr;
  RefusalCounts* counts = nullptr;
  // Each call that waits for news holds one of the server's threads (ServerRunner's max_threads).
  // Signs of life, reports and short calls must always find one.
  size_t max_watches = 256;
  size_t max_watches_of_one = 64;  // of one caller
  // More are answered at once.
  size_t max_waiting_heartbeats = 512;
};

// What a client that was refused for want of room is asked to wait before it tries again.
inline constexpr char kPushbackMetadata[] = "grpc-retry-pushback-ms";
inline constexpr char kPushbackMs[] = "1000";

// Takes the bytes of a unary request for as long as it is handled. A request that does not fit is
// refused before anything is done about it, and its client told when to come again.
// `budget` may be nullptr: everything fits.
// Errors: ResourceExhausted  the budget has no room
inline absl::StatusOr<MemoryLease> AdmitRequest(MemoryBudget* budget, grpc::ServerContext* context,
                                                const google::protobuf::MessageLite& request) {
  if (budget == nullptr) return MemoryLease();
  absl::StatusOr<MemoryLease> lease = budget->Take(request.ByteSizeLong());
  if (!lease.ok()) context->AddTrailingMetadata(kPushbackMetadata, kPushbackMs);
  return lease;
}

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_REQUEST_GUARD_H_
