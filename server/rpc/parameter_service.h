#ifndef SANGAM_SERVER_RPC_PARAMETER_SERVICE_H_
#define SANGAM_SERVER_RPC_PARAMETER_SERVICE_H_

#include <grpcpp/server_builder.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "common/base/refusal_counts.h"
#include "common/plan/page_map.h"
#include "server/rpc/parameter_stream.h"
#include "server/rpc/vote_stream.h"

namespace sangam {

// Serves ParameterService (proto/parameter_service.proto) on completion queues of its own, one
// thread to a queue. A worker's frames are checked, summed and applied on the thread that received
// them; every other service of the same grpc::Server has threads of its own.
//
// Order of calls, all on one thread:
//   ParameterService service(options, find_shard, find_counter);
//   service.Register(&builder);      server = builder.BuildAndStart();
//   service.Start();                 ...
//   service.EndCalls();              server->Shutdown(deadline);
//   service.Stop();
// Without a server (BuildAndStart failed) only the destructor follows.
class ParameterService {
 public:
  struct Options {
    // Completion queues, each with its thread; >= 1.
    int threads = 2;
    // Of the largest page of any job; decides how long a worker's message may be. (The server must
    // let such messages through: grpc::ServerBuilder::SetMaxReceiveMessageSize.)
    uint64_t page_elements = kPageElements;
    // PushPull, ReadWeights and Vote together, at once.
    size_t max_calls = 1024;
    // Of them ReadWeights, and those of one caller. Each holds the pages as they were at its
    // beginning until it has sent them: while a job trains, all weights once more.
    size_t max_reads = 32;
    size_t max_reads_of_one = 8;
    // How often every call looks whether it must end: bounds how late a deadline below is seen.
    absl::Duration check_interval = absl::Milliseconds(500);
    // See ParameterCallContext.
    size_t max_waiting_frames = 65536;
    absl::Duration hello_deadline = absl::Seconds(10);
    absl::Duration stall_deadline = absl::Seconds(60);
    absl::Duration end_grace = absl::Seconds(5);
    RefusalCounts* counts = nullptr;  // may be nullptr; outlives the service
  };

  ParameterService(const Options& options, ShardFinder find_shard, CounterFinder find_counter);
  // Stops, when Stop was not called. The grpc::Server must have been shut down.
  ~ParameterService();
  ParameterService(const ParameterService&) = delete;
  ParameterService& operator=(const ParameterService&) = delete;

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

#endif  // SANGAM_SERVER_RPC_PARAMETER_SERVICE_H_
