#include "common/rpc/coordinator_link.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "proto/cluster_service.grpc.pb.h"

namespace sangam {
namespace {

// The other side may be gone without a trace (power, network): the kernel would try for minutes to
// deliver on the old connection.
constexpr int kTimeoutsBeforeNewConnection = 3;

}  // namespace

CoordinatorLink::CoordinatorLink(std::string address) : address_(std::move(address)) {
  MutexLock lock(&mutex_);
  Connect();
}

void CoordinatorLink::EndCalls() {
  MutexLock lock(&mutex_);
  for (grpc::ClientContext* call : calls_) call->TryCancel();
}

void CoordinatorLink::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  for (grpc::ClientContext* call : calls_) call->TryCancel();
}

std::shared_ptr<CoordinatorLink::Stub> CoordinatorLink::Begin(absl::Duration timeout,
                                                              grpc::ClientContext* context) {
  SetTimeout(timeout, context);
  MutexLock lock(&mutex_);
  if (closed_) return nullptr;
  calls_.insert(context);
  return stub_;
}

absl::Status CoordinatorLink::End(const grpc::Status& status, grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  calls_.erase(context);
  timeouts_in_a_row_ =
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ? timeouts_in_a_row_ + 1 : 0;
  if (timeouts_in_a_row_ >= kTimeoutsBeforeNewConnection) Connect();
  return FromGrpcStatus(status);
}

void CoordinatorLink::Connect() {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = MakeControlChannel(address_);
  SANGAM_CHECK(channel.ok());
  stub_ = v1::ClusterService::NewStub(*channel);
  timeouts_in_a_row_ = 0;
}

}  // namespace sangam
