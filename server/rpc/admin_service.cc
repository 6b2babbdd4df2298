#include "server/rpc/admin_service.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/process_credentials.h"
#include "proto/admin_service.grpc.pb.h"
#include "server/runtime/coordinator.h"

namespace sangam {

grpc::Status GrpcAdminService::DrainDaemon(grpc::ServerContext* context,
                                           const v1::DrainDaemonRequest* request,
                                           v1::DrainDaemonResponse* response) {
  absl::StatusOr<v1::DrainDaemonResponse> result = coordinator_.DrainDaemon(*request);
  const std::string& role = result.ok() ? result->role() : request->role();
  Audit(*context, request->undrain() ? "UndrainDaemon" : "DrainDaemon",
        absl::StrCat(role, role.empty() ? "" : " ", request->name()), result.status());
  if (!result.ok()) return ToGrpcStatus(result.status());
  *response = *std::move(result);
  return grpc::Status::OK;
}

}  // namespace sangam
