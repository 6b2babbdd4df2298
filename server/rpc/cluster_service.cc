#include "server/rpc/cluster_service.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/host_port.h"
#include "proto/cluster_service.grpc.pb.h"
#include "server/runtime/coordinator.h"

namespace sangam {
namespace {

// The value into *response, or the error.
template <typename Response>
grpc::Status Answer(absl::StatusOr<Response> result, Response* response) {
  if (!result.ok()) return ToGrpcStatus(result.status());
  *response = *std::move(result);
  return grpc::Status::OK;
}

}  // namespace

absl::StatusOr<std::string> CompleteAddress(absl::string_view address, absl::string_view peer,
                                            absl::string_view loopback_host) {
  ASSIGN_OR_RETURN(HostPort reachable, ParseHostPort(address), "address");
  if (reachable.port == 0) {
    return absl::InvalidArgumentError(absl::StrCat("address: found port 0 in \"", address,
                                                   "\", expected the port it listens on"));
  }
  if (IsWildcard(reachable.host)) {
    ASSIGN_OR_RETURN(reachable.host, HostOfPeer(peer), "the daemon's own address");
    if (IsLoopback(reachable.host) && !loopback_host.empty()) {
      reachable.host = std::string(loopback_host);
    }
  }
  return ToString(reachable);
}

grpc::Status GrpcClusterService::Register(grpc::ServerContext* context,
                                          const v1::RegisterRequest* request,
                                          v1::RegisterResponse* response) {
  if (request->address().empty()) return Answer(coordinator_.Register(*request), response);
  absl::StatusOr<std::string> address =
      CompleteAddress(request->address(), context->peer(), loopback_host_);
  if (!address.ok()) return ToGrpcStatus(address.status());
  v1::RegisterRequest complete = *request;
  complete.set_address(*std::move(address));
  return Answer(coordinator_.Register(complete), response);
}

grpc::Status GrpcClusterService::Heartbeat(grpc::ServerContext* /*context*/,
                                           const v1::HeartbeatRequest* request,
                                           v1::HeartbeatResponse* response) {
  return Answer(coordinator_.Heartbeat(*request), response);
}

grpc::Status GrpcClusterService::Report(grpc::ServerContext* /*context*/,
                                        const v1::ReportRequest* request,
                                        v1::ReportResponse* /*response*/) {
  return ToGrpcStatus(coordinator_.Report(*request));
}

grpc::Status GrpcClusterService::ReadCheckpoint(grpc::ServerContext* /*context*/,
                                                const v1::ReadCheckpointRequest* request,
                                                grpc::ServerWriter<v1::TensorFrame>* writer) {
  return ToGrpcStatus(coordinator_.ReadCheckpoint(
      *request, [writer](const v1::FrameHeader& header, absl::string_view payload) {
        v1::TensorFrame frame;
        *frame.mutable_header() = header;
        frame.set_payload(payload.data(), payload.size());
        if (writer->Write(frame)) return absl::OkStatus();
        return absl::CancelledError("the server does not read any more");
      }));
}

grpc::Status GrpcClusterService::Leave(grpc::ServerContext* /*context*/,
                                       const v1::LeaveRequest* request,
                                       v1::LeaveResponse* /*response*/) {
  coordinator_.Leave(*request);
  return grpc::Status::OK;
}

}  // namespace sangam
