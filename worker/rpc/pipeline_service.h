#ifndef SANGAM_WORKER_RPC_PIPELINE_SERVICE_H_
#define SANGAM_WORKER_RPC_PIPELINE_SERVICE_H_

#include <grpcpp/server_builder.h>

#include <cstddef>
#include <memory>

#include "absl/time/time.h"
#include "common/base/refusal_counts.h"
#include "worker/rpc/flow_registry.h"

namespace sangam {

// Serves PipelineService (proto/pipeline_service.proto) on a completion queue of its own with one
// thread, which also writes the tensors of the jobs in `jobs` to their memory.
//
// Order of calls, all on one thread:
//   PipelineService service(options, &jobs);
//   service.Register(&builder);      server = builder.BuildAndStart();
//   service.Start();                 ...
//   service.EndCalls();              server->Shutdown(deadline);
//   service.Stop();
// Without a server (BuildAndStart failed) only the destructor follows.
class PipelineService {
 public:
  struct Options {
    // Completion queues, each with its thread; >= 1.
    int threads = 1;
    // Streams at once.
    size_t max_calls = 1024;
    // How often every call looks whether it must end: bounds how late a deadline below is seen.
    absl::Duration check_interval = absl::Milliseconds(500);
    // See FlowCallContext.
    absl::Duration hello_deadline = absl::Seconds(10);
    absl::Duration end_grace = absl::Seconds(5);
    RefusalCounts* counts = nullptr;  // may be nullptr; outlives the service
  };

  // `jobs` must outlive the service.
  PipelineService(const Options& options, const FlowRegistry* jobs);
  // Stops, when Stop was not called. The grpc::Server must have been shut down.
  ~PipelineService();
  PipelineService(const PipelineService&) = delete;
  PipelineService& operator=(const PipelineService&) = delete;

  // Adds the service, its queues and the connections' settings to a server that is being built.
  void Register(grpc::ServerBuilder* builder);

  // Accepts calls from now on.
  void Start();

  // Ends all calls with UNAVAILABLE, and those that still come.
  void EndCalls();

  // Waits until nothing is under way, and ends the threads.
  void Stop();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RPC_PIPELINE_SERVICE_H_
