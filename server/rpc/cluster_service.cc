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
#include "common/base/memory_budget.h"
#include "common/base/status_macros.h"
#include "common/rpc/call_places.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/host_port.h"
#include "common/rpc/process_credentials.h"
#include "common/rpc/request_guard.h"
#include "common/rpc/stalled_calls.h"
#include "common/security/caller.h"
#include "common/security/identity.h"
#include "proto/cluster_service.grpc.pb.h"
#include "server/runtime/coordinator.h"

namespace sangam {
namespace {

std::string NameOf(const v1::DaemonIdentity& daemon) {
  return absl::StrCat(daemon.role() == v1::SERVER ? "server " : "worker ", daemon.name());
}

// A daemon speaks for itself only.
absl::Status CheckSpeaker(const grpc::ServerContext& context, const v1::DaemonIdentity& daemon) {
  const Role role = daemon.role() == v1::SERVER ? Role::kServer : Role::kWorker;
  return CallerIdentity(context).CheckDaemon(role, daemon.name());
}

// The same of a call that is written down only when it is refused.
absl::Status CheckSpeaker(const grpc::ServerContext& context, const v1::DaemonIdentity& daemon,
                          const char* method) {
  absl::Status status = CheckSpeaker(context, daemon);
  if (!status.ok()) Audit(context, method, NameOf(daemon), status);
  return status;
}

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
  const grpc::Status status = RegisterCaller(*context, *request, response);
  Audit(*context, "Register", NameOf(request->daemon()), FromGrpcStatus(status));
  return status;
}

grpc::Status GrpcClusterService::RegisterCaller(const grpc::ServerContext& context,
                                                const v1::RegisterRequest& request,
                                                v1::RegisterResponse* response) {
  if (const absl::Status status = CheckSpeaker(context, request.daemon()); !status.ok()) {
    return ToGrpcStatus(status);
  }
  if (request.address().empty()) return Answer(coordinator_.Register(request), response);
  absl::StatusOr<std::string> address =
      CompleteAddress(request.address(), context.peer(), loopback_host_);
  if (!address.ok()) return ToGrpcStatus(address.status());
  v1::RegisterRequest complete = request;
  complete.set_address(*std::move(address));
  return Answer(coordinator_.Register(complete), response);
}

grpc::Status GrpcClusterService::Heartbeat(grpc::ServerContext* context,
                                           const v1::HeartbeatRequest* request,
                                           v1::HeartbeatResponse* response) {
  if (const absl::Status status = CheckSpeaker(*context, request->daemon(), "Heartbeat");
      !status.ok()) {
    return ToGrpcStatus(status);
  }
  const CallPlaces::Place place(&waiting_, "");
  if (place.taken()) return Answer(coordinator_.Heartbeat(*request), response);
  // Without a thread to wait on. The daemon sees it by the time, and takes some of its own.
  v1::HeartbeatRequest at_once = *request;
  at_once.clear_max_wait_ms();
  return Answer(coordinator_.Heartbeat(at_once), response);
}

grpc::Status GrpcClusterService::Report(grpc::ServerContext* context,
                                        const v1::ReportRequest* request,
                                        v1::ReportResponse* /*response*/) {
  if (const absl::Status status = CheckSpeaker(*context, request->daemon(), "Report");
      !status.ok()) {
    return ToGrpcStatus(status);
  }
  // Counted and not refused: jobs cannot do without their reports.
  MemoryLease lease;
  if (limits_.budget != nullptr) lease = limits_.budget->TakeAlways(request->ByteSizeLong());
  return ToGrpcStatus(coordinator_.Report(*request));
}

grpc::Status GrpcClusterService::ReadCheckpoint(grpc::ServerContext* context,
                                                const v1::ReadCheckpointRequest* request,
                                                grpc::ServerWriter<v1::TensorFrame>* writer) {
  if (const absl::Status status = CheckSpeaker(*context, request->daemon(), "ReadCheckpoint");
      !status.ok()) {
    return ToGrpcStatus(status);
  }
  return ToGrpcStatus(coordinator_.ReadCheckpoint(
      *request, [&](const v1::FrameHeader& header, absl::string_view payload) {
        v1::TensorFrame frame;
        *frame.mutable_header() = header;
        frame.set_payload(payload.data(), payload.size());
        const StalledCalls::Write write(limits_.stalled, context, "ReadCheckpoint");
        if (writer->Write(frame)) return absl::OkStatus();
        return absl::CancelledError("the server does not read any more");
      }));
}

grpc::Status GrpcClusterService::Leave(grpc::ServerContext* context,
                                       const v1::LeaveRequest* request,
                                       v1::LeaveResponse* /*response*/) {
  if (const absl::Status status = CheckSpeaker(*context, request->daemon(), "Leave");
      !status.ok()) {
    return ToGrpcStatus(status);
  }
  coordinator_.Leave(*request);
  return grpc::Status::OK;
}

}  // namespace sangam
