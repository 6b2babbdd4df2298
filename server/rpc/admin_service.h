#ifndef SANGAM_SERVER_RPC_ADMIN_SERVICE_H_
#define SANGAM_SERVER_RPC_ADMIN_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "proto/admin_service.grpc.pb.h"
#include "server/runtime/coordinator.h"

namespace sangam {

// AdminService over the coordinator: translates and nothing else. Thread-safe.
class GrpcAdminService final : public v1::AdminService::Service {
 public:
  // `coordinator` must outlive the service.
  explicit GrpcAdminService(Coordinator* coordinator) : coordinator_(*coordinator) {}

  grpc::Status DrainDaemon(grpc::ServerContext* context, const v1::DrainDaemonRequest* request,
                           v1::DrainDaemonResponse* response) override;

 private:
  Coordinator& coordinator_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_ADMIN_SERVICE_H_
