#ifndef SANGAM_WORKER_PIPELINE_SERVER_H_
#define SANGAM_WORKER_PIPELINE_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/server_runner.h"
#include "worker/rpc/flow_registry.h"
#include "worker/rpc/grpc_pipeline_link.h"
#include "worker/rpc/pipeline_service.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam {

// Where other workers reach this process: the server with its PipelineService, and the links of the
// jobs that it finds. From its making until Shutdown it serves.
class PipelineServer {
 public:
  struct Options {
    std::string listen = "127.0.0.1:0";  // "host:port"; port 0: one that is free
    std::string advertise;               // "host" or "host:port"; empty: where it listens
    PipelineService::Options service;
    GrpcPipelineLink::Options link;
  };

  // Errors: InvalidArgument     a malformed address; names the flag
  //         FailedPrecondition  cannot listen there
  static absl::StatusOr<std::unique_ptr<PipelineServer>> Start(const Options& options);
  // Calls Shutdown. All links must have been destroyed.
  ~PipelineServer();

  // What to register, "host:port". Without a host when it listens on all addresses and nothing was
  // advertised: then it is where the coordinator sees the worker come from.
  const std::string& address() const { return address_; }

  // Makes links that other workers reach by this server, which must outlive them.
  PipelineLinkFactory Factory();

  // Ends all calls, within some seconds.
  void Shutdown();

 private:
  explicit PipelineServer(const Options& options);
  absl::Status Listen();

  const Options options_;
  // What stands lower uses what stands above.
  FlowRegistry registry_;
  PipelineService service_;
  std::unique_ptr<ServerRunner> runner_;
  std::string address_;
  bool shut_down_ = false;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_PIPELINE_SERVER_H_
