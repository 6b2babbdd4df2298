#ifndef SANGAM_SERVER_RPC_CLUSTER_SERVICE_H_
#define SANGAM_SERVER_RPC_CLUSTER_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/rpc/call_places.h"
#include "common/rpc/request_guard.h"
#include "proto/cluster_service.grpc.pb.h"
#include "server/runtime/coordinator.h"

namespace sangam {

// Where others reach a daemon that calls itself reachable at `address` and is seen as `peer`.
// Without a host (":7071", "0.0.0.0:7071") the host is the peer's; of a daemon on the coordinator's
// own machine only this machine would see that, so there it is `loopback_host` unless that is
// empty. Errors: InvalidArgument  malformed address, or port 0
absl::StatusOr<std::string> CompleteAddress(absl::string_view address, absl::string_view peer,
                                            absl::string_view loopback_host);

// ClusterService over the coordinator: translates, and sees to it that daemons speak for themselves
// only. Thread-safe.
class GrpcClusterService final : public v1::ClusterService::Service {
 public:
  // `coordinator`, and what `limits` has, must outlive the service. `loopback_host`: see
  // CompleteAddress.
  GrpcClusterService(Coordinator* coordinator, std::string loopback_host,
                     const CallLimits& limits = {})
      : coordinator_(*coordinator),
        loopback_host_(std::move(loopback_host)),
        limits_(limits),
        waiting_(limits.max_waiting_heartbeats, limits.max_waiting_heartbeats) {}

  grpc::Status Register(grpc::ServerContext* context, const v1::RegisterRequest* request,
                        v1::RegisterResponse* response) override;
  grpc::Status Heartbeat(grpc::ServerContext* context, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override;
  grpc::Status Report(grpc::ServerContext* context, const v1::ReportRequest* request,
                      v1::ReportResponse* response) override;
  grpc::Status ReadCheckpoint(grpc::ServerContext* context,
                              const v1::ReadCheckpointRequest* request,
                              grpc::ServerWriter<v1::TensorFrame>* writer) override;
  grpc::Status Leave(grpc::ServerContext* context, const v1::LeaveRequest* request,
                     v1::LeaveResponse* response) override;

 private:
  grpc::Status RegisterCaller(const grpc::ServerContext& context,
                              const v1::RegisterRequest& request, v1::RegisterResponse* response);

  Coordinator& coordinator_;
  const std::string loopback_host_;
  const CallLimits limits_;
  CallPlaces waiting_;  // heartbeats
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_CLUSTER_SERVICE_H_
