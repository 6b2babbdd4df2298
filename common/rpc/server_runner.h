#ifndef SANGAM_COMMON_RPC_SERVER_RUNNER_H_
#define SANGAM_COMMON_RPC_SERVER_RUNNER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/host_port.h"

namespace sangam {

// A gRPC server on one address, with health checks and reflection. It never shares its port with
// another process. Thread-safe after Start.
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
  };

  // Builds the server with the services that `register_services` adds, and serves at once. The
  // services must outlive the runner.
  // Errors: InvalidArgument    malformed address
  //         FailedPrecondition  cannot listen there (in use, not an address of this machine, not
  //                            allowed); names the address and the system's reason
  static absl::StatusOr<std::unique_ptr<ServerRunner>> Start(
      const Options& options, const std::function<void(grpc::ServerBuilder*)>& register_services);

  // Shuts down with a short deadline, when Shutdown was not called.
  ~ServerRunner();

  // Where it listens, with the port that was chosen.
  const HostPort& address() const { return address_; }

  // Health checks answer NOT_SERVING; calls that are under way may end until `deadline` has passed,
  // then they are cancelled. Waits for all handlers of synchronous services.
  void Shutdown(absl::Duration deadline);

 private:
  ServerRunner(std::unique_ptr<grpc::Server> server, HostPort address)
      : server_(std::move(server)), address_(std::move(address)) {}

  const std::unique_ptr<grpc::Server> server_;
  const HostPort address_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_SERVER_RUNNER_H_
