#include "worker/pipeline_server.h"

#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/refusal_counts.h"
#include "common/base/status_macros.h"
#include "common/rpc/host_port.h"
#include "common/rpc/server_runner.h"
#include "worker/rpc/grpc_pipeline_link.h"
#include "worker/rpc/pipeline_service.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam {
namespace {

constexpr absl::Duration kShutdownDeadline = absl::Seconds(3);

absl::StatusOr<std::string> AddressOf(const HostPort& bound, const std::string& advertise) {
  if (advertise.empty()) {
    return IsWildcard(bound.host) ? absl::StrCat(":", bound.port) : ToString(bound);
  }
  absl::StatusOr<HostPort> target = ParseTarget(advertise);
  // A host alone goes with the port that was chosen.
  if (!target.ok()) target = ParseTarget(absl::StrCat(advertise, ":", bound.port));
  if (!target.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("found \"", advertise, "\", expected HOST or HOST:PORT"));
  }
  return ToString(*target);
}

PipelineService::Options ServiceOptions(const PipelineServer::Options& options,
                                        RefusalCounts* counts) {
  PipelineService::Options service = options.service;
  service.counts = counts;
  return service;
}

}  // namespace

PipelineServer::PipelineServer(const Options& options)
    : options_(options),
      budget_(options.memory_budget, &refusals_),
      service_(ServiceOptions(options, &refusals_), &registry_) {}

absl::StatusOr<std::unique_ptr<PipelineServer>> PipelineServer::Start(const Options& options) {
  std::unique_ptr<PipelineServer> server(new PipelineServer(options));
  RETURN_IF_ERROR(server->Listen());
  return server;
}

absl::Status PipelineServer::Listen() {
  ServerRunner::Options runner;
  runner.listen = options_.listen;
  runner.max_connections = options_.max_connections;
  runner.stalled_call_timeout = options_.stalled_call_timeout;
  if (options_.memory_budget > 0) runner.budget = &budget_;
  runner.counts = &refusals_;
  runner.services = {"sangam.v1.PipelineService"};
  runner.readiness = options_.readiness;
  runner.calls = options_.calls;
  ASSIGN_OR_RETURN(
      runner_,
      ServerRunner::Start(runner,
                          [this](grpc::ServerBuilder* builder) { service_.Register(builder); }),
      "--listen");
  service_.Start();
  ASSIGN_OR_RETURN(address_, AddressOf(runner_->address(), options_.advertise), "--advertise");
  return absl::OkStatus();
}

PipelineServer::~PipelineServer() { Shutdown(); }

PipelineLinkFactory PipelineServer::Factory() {
  return [this](const PipelineLinkOptions& options) {
    return GrpcPipelineLink::Create(options, &registry_, options_.link);
  };
}

void PipelineServer::Shutdown() {
  if (shut_down_ || runner_ == nullptr) return;
  shut_down_ = true;
  service_.EndCalls();
  runner_->Shutdown(kShutdownDeadline);
  service_.Stop();
}

}  // namespace sangam
