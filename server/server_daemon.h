#ifndef SANGAM_SERVER_SERVER_DAEMON_H_
#define SANGAM_SERVER_SERVER_DAEMON_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/admin/daemon_admin.h"
#include "common/base/job_log.h"
#include "common/base/memory_budget.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"
#include "common/metrics/metric_page.h"
#include "common/rpc/daemon_process.h"
#include "common/rpc/node_agent.h"
#include "common/rpc/server_runner.h"
#include "common/rpc/stalled_calls.h"
#include "nlohmann/json.hpp"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/cluster_service.h"
#include "server/rpc/data_service.h"
#include "server/rpc/job_service.h"
#include "server/rpc/parameter_service.h"
#include "server/rpc/state_reader.h"
#include "server/rpc/vote_connection.h"
#include "server/runtime/checkpoint_store.h"
#include "server/runtime/checkpoint_writer.h"
#include "server/runtime/coordinator.h"
#include "server/runtime/job_store.h"
#include "server/runtime/served_data.h"
#include "server/runtime/shard_table.h"
#include "server/runtime/stall_watch.h"
#include "server/runtime/state_dir.h"
#include "server/runtime/temporary_folder.h"
#include "server/runtime/ticker.h"
#include "server/server_metrics.h"

namespace sangam {

struct ServerOptions {
  bool coordinate = true;   // serve JobService and ClusterService
  bool hold_pages = true;   // serve ParameterService and register as a server
  std::string listen;       // "host:port"
  std::string coordinator;  // "host:port"; empty: this process
  std::string advertise;    // "host:port"; empty: what the coordinator sees, with the bound port
  std::string name;
  uint64_t incarnation = 0;
  // Bytes of weights and optimizer state, and as many of data that is served; 0: no limit.
  uint64_t memory_limit = 0;
  std::string data_root;  // of data that is served; empty: none is
  // Of a coordinator: for what outlives the process; empty: nothing does. Made when it is missing.
  std::string state_dir;
  int threads = 2;  // that receive, sum and update
  absl::Duration start_deadline = absl::Seconds(30);
  // Sent to the coordinator. May be nullptr; must outlive the daemon.
  JobLog* log = nullptr;
  // For those who look at the daemon. May be nullptr; must outlive it.
  DaemonAdmin* admin = nullptr;
  Coordinator::Options control;
  // Of what peers make this process hold, on top of what jobs are planned to; see MemoryBudget.
  uint64_t memory_budget = uint64_t{1} << 30;
  size_t max_connections = 2048;
  // How long a peer may owe a call's first message, or leave unread what it is sent.
  absl::Duration stalled_call_timeout = absl::Seconds(30);
};

// The parts of one server process, wired together: from its making until Shutdown it serves.
class ServerDaemon : public AdminSource {
 public:
  // `signal`: ends a start that waits for the coordinator.
  // Errors: InvalidArgument     a malformed address, or data_root is no folder; names the flag
  //         NotFound            there is no data_root
  //         FailedPrecondition  cannot listen there, or state_dir is in use
  //         Cancelled           the signal came
  //         others              as NodeAgent::Start, StateDir and JobStore
  static absl::StatusOr<std::unique_ptr<ServerDaemon>> Start(const ServerOptions& options,
                                                             const ShutdownSignal& signal);
  ~ServerDaemon() override;

  // Where it listens, "host:port" with the port that was chosen.
  std::string address() const;

  // OK while it can go on.
  absl::Status stopped() const;

  // What was refused, for metrics. Valid as long as the daemon lives.
  const RefusalCounts& refusals() const { return refusals_; }
  const MemoryBudget& budget() const { return budget_; }
  // What it holds, in lines for people.
  std::string Describe() const;
  // Before Shutdown: waits, at most `timeout`, until other servers have the pages of the jobs that
  // this one has a part in, and until what a coordinator is writing down is written. Where a
  // coordinator's jobs end with it anyway: not at all.
  void Drain(absl::Duration timeout);
  void AddMetrics(MetricPage* page) const override;
  void AddStatus(nlohmann::json* status) const override;

  // Says goodbye and ends all calls, within some seconds.
  void Shutdown(const std::string& reason);

 private:
  explicit ServerDaemon(const ServerOptions& options);
  // The daemon leaves before it is drained: says what becomes of the jobs whose pages it has.
  void LogLostJobs() const;
  // As a server.
  v1::DaemonIdentity Identity() const;
  absl::Status Serve();
  // `host`: what others call this machine.
  absl::Status MakeCoordinator(const std::string& host);
  absl::Status Join(const ShutdownSignal& signal);
  void Report(v1::ReportRequest request);
  ServerSnapshot Snapshot() const;
  std::vector<v1::Job> AllJobs() const;
  // Looks for what stands still, and says so in the log.
  void Watch();
  void OnAssignments(const std::vector<v1::Assignment>& assignments);

  const ServerOptions options_;
  std::string coordinator_address_;  // where it joins; set before it does
  // Reports go through the agent, which can ask for them before Start has handed it over.
  Mutex mutex_;
  NodeAgent* reporting_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<v1::ReportRequest> early_reports_ ABSL_GUARDED_BY(mutex_);
  bool left_ ABSL_GUARDED_BY(mutex_) = false;  // reports are dropped
  // In the order of dependency: what stands lower uses what stands above.
  RefusalCounts refusals_;
  MemoryBudget budget_;
  StalledCalls stalled_;
  std::unique_ptr<StateDir> state_dir_;
  // Where there is no state_dir: for checkpoints of jobs that go on elsewhere.
  std::optional<TemporaryFolder> temporary_;
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<CheckpointStore> checkpoints_;
  std::unique_ptr<StateReader> state_reader_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<CheckpointWriter> checkpoint_writer_;
  std::unique_ptr<ServedData> served_data_;
  std::unique_ptr<Ticker> ticker_;
  std::unique_ptr<Ticker> starter_;
  std::unique_ptr<GrpcJobService> job_service_;
  std::unique_ptr<GrpcClusterService> cluster_service_;
  std::unique_ptr<GrpcAdminService> admin_service_;
  std::unique_ptr<DataService> data_service_;
  std::unique_ptr<VoteConnections> vote_connections_;
  std::unique_ptr<ShardTable> shards_;
  std::unique_ptr<ParameterService> parameter_service_;
  std::unique_ptr<ServerRunner> runner_;
  std::unique_ptr<NodeAgent> agent_;
  // What stands still.
  mutable Mutex watch_mutex_;
  StallWatch stall_watch_ ABSL_GUARDED_BY(watch_mutex_);
  std::vector<StallWatch::Stall> stalls_ ABSL_GUARDED_BY(watch_mutex_);
  uint64_t warned_of_sync_ = 0;  // used by the watch alone
  std::unique_ptr<Ticker> watch_;
  bool shut_down_ = false;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_SERVER_DAEMON_H_
