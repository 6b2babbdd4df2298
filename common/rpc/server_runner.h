#ifndef SANGAM_COMMON_RPC_SERVER_RUNNER_H_
#define SANGAM_COMMON_RPC_SERVER_RUNNER_H_

#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/memory_budget.h"
#include "common/base/readiness.h"
#include "common/base/refusal_counts.h"
#include "common/metrics/call_counts.h"
#include "common/rpc/bind_rule.h"
#include "common/rpc/call_places.h"
#include "common/rpc/connection_gate.h"
#include "common/rpc/health_service.h"
#include "common/rpc/host_port.h"
#include "common/rpc/missing_messages.h"
#include "common/rpc/process_credentials.h"
#include "common/rpc/seen_hosts.h"

namespace sangam {

// A gRPC server on one address, with health checks and reflection, and with channelz where TLS says
// who may see it or only this machine can reach it. It never shares its port with another process.
// What peers may take of it is bounded: docs/limits.md. Thread-safe after Start.
class ServerRunner {
 public:
  struct Options {
    std::string listen;  // "host:port"; port 0: one that is free; empty host: all addresses
    // Calls of synchronous services that are served at once, each with a thread; more are refused
    // with RESOURCE_EXHAUSTED. A call that waits for news is one of them.
    int max_threads = 1024;
    // Length of a message from a client. The longest ones are reports of evaluations with very many
    // chunks; streams of tensors have a bound of their own.
    int max_receive_bytes = 16 * 1024 * 1024;
    // Full names of the services, which health checks know.
    std::vector<std::string> services = {};
    // What health checks answer; nullptr: always ready. Must outlive the runner.
    const Readiness* readiness = nullptr;
    // Counts the calls; nullptr: nobody does. Must outlive the runner.
    CallCounts* calls = nullptr;
    // Without TLS only this machine may reach it (common/rpc/bind_rule.h).
    std::shared_ptr<ProcessCredentials> credentials = CurrentProcessCredentials();
    // Connections at once; see ConnectionGate.
    size_t max_connections = 2048;
    // From a connection's first byte until HTTP/2 stands, with TLS in between; and before it, until
    // that byte.
    absl::Duration handshake_timeout = absl::Seconds(10);
    // Without a call for this long a connection is closed. Calls keep it, however quiet they are.
    absl::Duration max_connection_idle = absl::Minutes(5);
    // How long a call may owe its first message; then its connection is broken off.
    absl::Duration stalled_call_timeout = absl::Seconds(30);
    // What gRPC holds of messages, and of calls, may be as much as this has with what is planned;
    // beyond it gRPC cancels calls with RESOURCE_EXHAUSTED. It does not look at a message's length
    // before it has all of it, so nothing else bounds what a peer can make it hold. May be nullptr:
    // no bound. Outlives the runner.
    MemoryBudget* budget = nullptr;
    RefusalCounts* counts = nullptr;  // may be nullptr; outlives the runner
  };

  // Builds the server with the services that `register_services` adds, and serves at once. The
  // services must outlive the runner.
  // Errors: InvalidArgument    malformed address
  //         FailedPrecondition  cannot listen there (in use, not an address of this machine, not
  //                            allowed); names the address and the system's reason. Also an address
  //                            that needs TLS
  static absl::StatusOr<std::unique_ptr<ServerRunner>> Start(
      const Options& options, const std::function<void(grpc::ServerBuilder*)>& register_services);

  // Shuts down with a short deadline, when Shutdown was not called.
  ~ServerRunner();

  // Where it listens, with the port that was chosen.
  const HostPort& address() const { return gate_->address(); }

  // Connections that are open.
  size_t num_connections() const { return gate_->num_open(); }

  // Health checks answer NOT_SERVING; calls that are under way may end until `deadline` has passed,
  // then they are cancelled. Waits for all handlers of synchronous services.
  void Shutdown(absl::Duration deadline);

 private:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  explicit ServerRunner(const Options& options);

  // Breaks off the connections whose calls lack their first message. On the gate's thread.
  void LookAtConnections();
  // Into the audit log: gRPC says nowhere from where a handshake came that failed, or a call that
  // was refused before its method. On the gate's thread.
  void AuditConnection(const HostPort& peer, const absl::Status& result);

  const Options options_;  // its credentials outlive the server
  MissingMessages missing_;
  SeenHosts seen_;
  CallPlaces served_;  // outlives the server
  grpc::ResourceQuota quota_{"server"};
  // Set by Start. The acceptor ends after the server, the gate before it.
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<HealthService> health_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionGate> gate_;
  std::unique_ptr<OpenDoorWarning> warning_;  // without TLS, when others can reach it
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_SERVER_RUNNER_H_
