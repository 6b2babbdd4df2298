#include "common/rpc/health_service.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/readiness.h"
#include "common/rpc/grpc_status.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace sangam {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// Each holds a thread.
constexpr size_t kMaxWatches = 64;
// How late a watch sees that its client or the server has gone.
constexpr absl::Duration kLook = absl::Milliseconds(200);
// Of a name in an error.
constexpr size_t kShownName = 128;

}  // namespace

HealthService::HealthService(const std::vector<std::string>& services, const Readiness* readiness)
    : services_(services.begin(), services.end()), readiness_(readiness) {
  services_.insert({"", "live", "ready", grpc::health::v1::Health::service_full_name()});
}

HealthService::ServingStatus HealthService::StatusOf(const std::string& service, bool ready) const {
  if (services_.count(service) == 0) return HealthCheckResponse::SERVICE_UNKNOWN;
  if (stopped_.load()) return HealthCheckResponse::NOT_SERVING;
  return ready || service == "live" ? HealthCheckResponse::SERVING
                                    : HealthCheckResponse::NOT_SERVING;
}

grpc::Status HealthService::Check(grpc::ServerContext* /*context*/,
                                  const HealthCheckRequest* request,
                                  HealthCheckResponse* response) {
  const bool ready = readiness_ == nullptr || readiness_->state().ready();
  const ServingStatus status = StatusOf(request->service(), ready);
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    return ToGrpcStatus(absl::NotFoundError(absl::StrCat(
        "health: found service \"", absl::CEscape(request->service().substr(0, kShownName)),
        "\", expected \"\", \"live\", \"ready\" or the name of a service")));
  }
  response->set_status(status);
  return grpc::Status::OK;
}

grpc::Status HealthService::Watch(grpc::ServerContext* context, const HealthCheckRequest* request,
                                  grpc::ServerWriter<HealthCheckResponse>* writer) {
  struct Place {
    explicit Place(std::atomic<size_t>* all) : all(*all), number(all->fetch_add(1)) {}
    ~Place() { all.fetch_sub(1); }
    std::atomic<size_t>& all;
    const size_t number;
  } const place(&watches_);
  if (place.number >= kMaxWatches) {
    return ToGrpcStatus(absl::ResourceExhaustedError(
        absl::StrCat("health: ", kMaxWatches, " calls watch already")));
  }
  // Only looked at for its waits when no other one was given.
  const Readiness& readiness = readiness_ != nullptr ? *readiness_ : always_;
  Readiness::State state = readiness.state();
  std::optional<ServingStatus> told;
  while (!context->IsCancelled()) {
    const ServingStatus status =
        StatusOf(request->service(), readiness_ == nullptr || state.ready());
    if (status != told) {
      HealthCheckResponse response;
      response.set_status(status);
      if (!writer->Write(response)) break;
      told = status;
    }
    if (stopped_.load()) return grpc::Status::OK;
    state = readiness.WaitForChange(state.revision, kLook);
  }
  return grpc::Status::CANCELLED;
}

}  // namespace sangam
