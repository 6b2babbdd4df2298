#include "common/rpc/server_runner.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/memory_budget.h"
#include "common/base/refusal_counts.h"
#include "common/base/status_macros.h"
#include "common/rpc/bind_rule.h"
#include "common/rpc/call_observer.h"
#include "common/rpc/connection_gate.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/health_service.h"
#include "common/rpc/host_port.h"
#include "common/rpc/missing_messages.h"
#include "common/rpc/process_credentials.h"
#include "common/security/audit_log.h"

namespace sangam {
namespace {

// Plans of large models; the clients take no longer ones.
constexpr int kMaxSendBytes = 64 * 1024 * 1024;
// Of one connection. Daemons and clients have a handful; more wait in the client.
constexpr int kMaxStreamsPerConnection = 128;
constexpr int kMaxMetadataBytes = 8 * 1024;

// Between two looks at the counts of all connections.
constexpr absl::Duration kShortestLook = absl::Milliseconds(100);
constexpr absl::Duration kLongestLook = absl::Seconds(5);

// A host that connects is written down once in this time.
constexpr absl::Duration kHostPeriod = absl::Hours(1);
constexpr size_t kMaxHosts = 4096;

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

void SetLimits(const ServerRunner::Options& options, grpc::ServerBuilder* builder) {
  ConfigureDataServer(builder);
  builder->SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder->SetMaxSendMessageSize(kMaxSendBytes);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  // Counts what LookAtConnections looks at.
  builder->AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 1);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              Milliseconds(options.handshake_timeout));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                              Milliseconds(options.max_connection_idle));
}

}  // namespace

ServerRunner::ServerRunner(const Options& options)
    : options_(options), missing_(options.stalled_call_timeout), seen_(kHostPeriod, kMaxHosts) {}

absl::StatusOr<std::unique_ptr<ServerRunner>> ServerRunner::Start(
    const Options& options, const std::function<void(grpc::ServerBuilder*)>& register_services) {
  ASSIGN_OR_RETURN(HostPort listen, ParseHostPort(options.listen));
  if (listen.host.empty()) listen.host = "0.0.0.0";
  RETURN_IF_ERROR(CheckBind(listen.host, options.credentials->encrypted(),
                            options.credentials->insecure_allow_remote()));
  ConnectionGate::Options gate;
  gate.max_connections = options.max_connections;
  gate.silent_timeout = options.handshake_timeout;
  gate.counts = options.counts;
  std::unique_ptr<ServerRunner> runner(new ServerRunner(options));
  if (options.credentials->encrypted()) {
    gate.tls = true;
    gate.on_connection = [runner = runner.get()](const HostPort& peer, const absl::Status& result) {
      runner->AuditConnection(peer, result);
    };
  }
  gate.look = [runner = runner.get()] { runner->LookAtConnections(); };
  gate.look_interval = std::clamp(options.stalled_call_timeout / 6, kShortestLook, kLongestLook);
  ASSIGN_OR_RETURN(runner->gate_, ConnectionGate::Listen(listen, gate));

  // gRPC's own health service is invisible to reflection.
  grpc::EnableDefaultHealthCheckService(false);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  // It shows who is connected. For all servers of the process from now on; a daemon has one.
  // With TLS the rights of its methods govern.
  if (options.credentials->encrypted() || IsLoopback(listen.host)) {
    grpc::channelz::experimental::InitChannelzService();
  }
  runner->health_ = std::make_unique<HealthService>(options.services, options.readiness);
  grpc::ServerBuilder builder;
  builder.RegisterService(runner->health_.get());
  register_services(&builder);
  ObserveCalls(options.calls, &runner->served_, &builder);
  // In place of a port: the gate listens.
  runner->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      options.credentials->Server(options.counts));
  SetLimits(options, &builder);
  runner->quota_.SetMaxThreads(options.max_threads);
  builder.SetResourceQuota(runner->quota_);
  runner->server_ = builder.BuildAndStart();
  if (runner->server_ == nullptr) {
    return absl::InternalError(absl::StrCat("cannot serve on ", ToString(listen)));
  }
  if (options.budget != nullptr) {
    options.budget->Observe([quota = &runner->quota_](uint64_t bytes) { quota->Resize(bytes); });
  }
  runner->gate_->Start([acceptor = runner->acceptor_.get()](int listener, int connection) {
    Acceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection;
    acceptor->HandleNewConnection(&parameters);
  });
  if (!options.credentials->encrypted() && !IsLoopback(listen.host)) {
    runner->warning_ =
        std::make_unique<OpenDoorWarning>(ToString(runner->address()), OpenDoorWarning::Options());
  }
  return runner;
}

void ServerRunner::AuditConnection(const HostPort& peer, const absl::Status& result) {
  // Those that are too many are counted, and not strange.
  if (absl::IsResourceExhausted(result)) return;
  if (result.ok() && !seen_.Take(peer.host, Clock::Real().Steady())) return;
  AuditEvent event;
  event.who = "unknown";
  event.peer = absl::StrCat(absl::StrContains(peer.host, ':') ? "ipv6:" : "ipv4:", ToString(peer));
  event.method = "connect";
  event.result = result;
  options_.credentials->audit_log()->WriteRefusal(event);
}

void ServerRunner::LookAtConnections() {
  std::vector<ConnectionCounts> connections = ReadConnectionCounts();
  for (ConnectionCounts& counts : connections) {
    // Others owe nothing.
    if (counts.calls_started == counts.calls_ended) continue;
    counts.calls_served = served_.Of(counts.peer);
    const absl::StatusOr<HostPort> peer = ParsePeer(counts.peer);
    if (peer.ok()) counts.bytes_received = gate_->BytesReceived(*peer);
  }
  for (const std::string& peer : missing_.Look(connections, Clock::Real().Steady())) {
    // It may be of another server in this process.
    const absl::StatusOr<HostPort> parsed = ParsePeer(peer);
    if (!parsed.ok() || !gate_->Break(*parsed)) continue;
    CountRefusal(options_.counts, Refusal::kMissingMessage);
    LogWarning("the message of a call does not come, its connection is broken off",
               "peer=%s timeout=%s", LogValue(peer),
               absl::FormatDuration(options_.stalled_call_timeout));
  }
}

ServerRunner::~ServerRunner() {
  Shutdown(absl::ZeroDuration());
  if (options_.budget != nullptr) options_.budget->Observe(nullptr);
}

void ServerRunner::Shutdown(absl::Duration deadline) {
  if (gate_ != nullptr) gate_->Stop();
  if (server_ == nullptr) return;
  health_->Stop();
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(deadline));
  server_->Wait();
}

}  // namespace sangam
