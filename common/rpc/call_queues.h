#ifndef SANGAM_COMMON_RPC_CALL_QUEUES_H_
#define SANGAM_COMMON_RPC_CALL_QUEUES_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server_builder.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/refusal_counts.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/completion_queue_thread.h"
#include "common/rpc/periodic_check.h"

namespace sangam {

// What every service of raw calls is made of: completion queues of its own, one thread to a queue,
// the registry of its calls and the look at their deadlines.
//
// Order of calls, all on one thread: Register, while the grpc::Server is being built; Start;
// EndCalls; the server's Shutdown; Stop. Without a server only the destructor follows.
class CallQueues {
 public:
  struct Options {
    int threads = 2;          // completion queues, each with its thread; >= 1
    size_t max_calls = 1024;  // at once
    // How often every call looks whether it must end.
    absl::Duration check_interval = absl::Milliseconds(500);
    RefusalCounts* counts = nullptr;  // may be nullptr; outlives the object
  };

  explicit CallQueues(const Options& options);
  // As Stop.
  ~CallQueues();
  CallQueues(const CallQueues&) = delete;
  CallQueues& operator=(const CallQueues&) = delete;

  // What the calls share.
  CallRegistry* registry() { return &registry_; }
  // Holds one activity for each call, from before it begins until it has finished.
  ActivityCount* activities() { return &activities_; }

  // Adds the service, the queues and the settings of data connections. `service` must outlive the
  // server.
  void Register(grpc::ServerBuilder* builder, grpc::Service* service);

  // Accepts calls from now on: `accept` asks for the first call of each kind on a queue.
  void Start(const std::function<void(grpc::ServerCompletionQueue*)>& accept);

  // Ends all calls with `error`, and those that still come.
  void EndCalls(const absl::Status& error) { registry_.EndAll(error); }

  // Waits until nothing is under way, and ends the threads. The server must have been shut down.
  void Stop();

 private:
  const Options options_;
  CallRegistry registry_;
  ActivityCount activities_;
  std::vector<grpc::ServerCompletionQueue*> queues_;
  std::vector<std::unique_ptr<CompletionQueueThread>> threads_;
  std::shared_ptr<PeriodicCheck> check_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_CALL_QUEUES_H_
