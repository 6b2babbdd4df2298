#ifndef SANGAM_WORKER_PIPELINE_SERVER_H_
#define SANGAM_WORKER_PIPELINE_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/memory_budget.h"
#include "common/base/readiness.h"
#include "common/base/refusal_counts.h"
#include "common/metrics/call_counts.h"
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
    uint64_t memory_budget = 0;          // bytes of other workers' messages; 0: no limit
    size_t max_connections = 2048;
    absl::Duration stalled_call_timeout = absl::Seconds(30);
    // As ServerRunner's.
    const Readiness* readiness = nullptr;
    CallCounts* calls = nullptr;
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

  // What was refused, for metrics. Valid as long as the server lives.
  const RefusalCounts& refusals() const { return refusals_; }

  // Makes links that other workers reach by this server, which must outlive them.
  PipelineLinkFactory Factory();

  // Ends all calls, within some seconds.
  void Shutdown();

 private:
  explicit PipelineServer(const Options& options);
  absl::Status Listen();

  const Options options_;
  // What stands lower uses what stands above.
  RefusalCounts refusals_;
  MemoryBudget budget_;
  FlowRegistry registry_;
  PipelineService service_;
  std::unique_ptr<ServerRunner> runner_;
  std::string address_;
  bool shut_down_ = false;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_PIPELINE_SERVER_H_
