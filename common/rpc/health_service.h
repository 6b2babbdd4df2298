#ifndef SANGAM_COMMON_RPC_HEALTH_SERVICE_H_
#define SANGAM_COMMON_RPC_HEALTH_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <atomic>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "common/base/readiness.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace sangam {

// gRPC's health protocol. "live" is SERVING as long as the server answers at all; "" (the server as
// a whole), "ready" and each of its services while the daemon takes work. Other names are not
// known. Thread-safe.
class HealthService final : public grpc::health::v1::Health::Service {
 public:
  // `services`: full names, "sangam.v1.JobService". `readiness` must outlive the object; nullptr:
  // always ready.
  HealthService(const std::vector<std::string>& services, const Readiness* readiness);

  // NOT_SERVING from now on, everything; watches end soon.
  void Stop() { stopped_.store(true); }

  //   NOT_FOUND  no such name
  grpc::Status Check(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override;
  // Ends only with the server or the client.
  //   RESOURCE_EXHAUSTED  too many watch
  grpc::Status Watch(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::ServerWriter<grpc::health::v1::HealthCheckResponse>* writer) override;

 private:
  using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // `ready`: whether the daemon is.
  ServingStatus StatusOf(const std::string& service, bool ready) const;

  std::set<std::string> services_;
  const Readiness always_;  // not used when there is another one
  const Readiness* const readiness_;
  std::atomic<bool> stopped_{false};
  std::atomic<size_t> watches_{0};
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_HEALTH_SERVICE_H_
