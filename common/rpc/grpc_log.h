#ifndef SANGAM_COMMON_RPC_GRPC_LOG_H_
#define SANGAM_COMMON_RPC_GRPC_LOG_H_

namespace sangam {

// From now on what gRPC itself logs comes as lines of our log, at level "debug": it tells of every
// refused connection, and whoever makes a call gets a status that says the same.
void RouteGrpcLog();

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_GRPC_LOG_H_
