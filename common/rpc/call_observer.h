#ifndef SANGAM_COMMON_RPC_CALL_OBSERVER_H_
#define SANGAM_COMMON_RPC_CALL_OBSERVER_H_

#include <grpcpp/server_builder.h>

#include "common/metrics/call_counts.h"
#include "common/rpc/call_places.h"

namespace sangam {

// Counts the calls of the server that is being built, of all its services but for our own streams
// in both directions: gRPC sends each message of an observed call through its queue once more, and
// AcceptedStream counts those itself. Calls of methods that the server does not have are not seen.
// `calls`: of those that have ended; may be nullptr. `served`: those that a service has, so that
// their request has come, by the peer as gRPC names it. Both must outlive the server.
void ObserveCalls(CallCounts* calls, CallPlaces* served, grpc::ServerBuilder* builder);

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_CALL_OBSERVER_H_
