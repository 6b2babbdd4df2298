#ifndef SANGAM_COMMON_RPC_COORDINATOR_LINK_H_
#define SANGAM_COMMON_RPC_COORDINATOR_LINK_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "proto/cluster_service.grpc.pb.h"

namespace sangam {

// Calls of ClusterService, one try each, that can be broken off. Thread-safe.
class CoordinatorLink {
 public:
  using Stub = v1::ClusterService::Stub;
  template <typename Request, typename Response>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

  // `address` is "host:port", which the caller has checked.
  explicit CoordinatorLink(std::string address);

  // Errors: as the call's; Cancelled when it was broken off
  template <typename Request, typename Response>
  absl::Status Call(Method<Request, Response> method, const Request& request,
                    absl::Duration timeout, Response* response) {
    grpc::ClientContext context;
    const std::shared_ptr<Stub> stub = Begin(timeout, &context);
    if (stub == nullptr) return absl::CancelledError("the link is closed");
    return End((*stub.*method)(&context, request, response), &context);
  }

  // Breaks off the calls that are under way, and lets none begin from now on.
  void Close();
  // Ends the calls that are under way, with Cancelled; later ones are made.
  void EndCalls();

 private:
  // Nullptr: closed.
  std::shared_ptr<Stub> Begin(absl::Duration timeout, grpc::ClientContext* context);
  absl::Status End(const grpc::Status& status, grpc::ClientContext* context);
  void Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string address_;
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Shared with the calls under way, which may outlive a change of the connection.
  std::shared_ptr<Stub> stub_ ABSL_GUARDED_BY(mutex_);
  int timeouts_in_a_row_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_COORDINATOR_LINK_H_
