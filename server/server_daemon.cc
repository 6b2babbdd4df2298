#include "server/server_daemon.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/admin/daemon_admin.h"
#include "common/base/clock.h"
#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/base/watchdog.h"
#include "common/data/data_root.h"
#include "common/metrics/call_counts.h"
#include "common/metrics/counters.h"
#include "common/metrics/metric_page.h"
#include "common/metrics/process_metrics.h"
#include "common/rpc/daemon_process.h"
#include "common/rpc/host_port.h"
#include "common/rpc/node_agent.h"
#include "common/rpc/primary_address.h"
#include "common/rpc/request_guard.h"
#include "common/rpc/server_runner.h"
#include "grpcpp/server_builder.h"
#include "nlohmann/json.hpp"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
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
#include "server/runtime/vote_link.h"
#include "server/server_metrics.h"

namespace sangam {
namespace {

constexpr absl::Duration kLeaveDeadline = absl::Seconds(3);
constexpr absl::Duration kShutdownDeadline = absl::Seconds(2);

// How often the daemon looks for what stands still, and from when on it says so.
constexpr absl::Duration kWatchPeriod = absl::Seconds(5);
constexpr absl::Duration kLongestStep = absl::Minutes(10);
constexpr absl::Duration kLongestSync = absl::Seconds(30);
// A loop that has not turned for so long is stuck. Forecasts for large clusters are made in one.
constexpr absl::Duration kLongestTick = absl::Minutes(2);

// Of the awaited workers that a log line names.
constexpr size_t kNamedWorkers = 16;

// Many looks within a lease, so that a lost daemon is seen soon after its lease has ended.
absl::Duration TickPeriod(absl::Duration lease) {
  return std::clamp(lease / 100, absl::Milliseconds(5), absl::Milliseconds(100));
}

void Send(NodeAgent* agent, v1::ReportRequest request) {
  for (v1::JobReport& report : *request.mutable_report()) {
    agent->Report(request.job(), request.generation(), std::move(report));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerDaemon>> ServerDaemon::Start(const ServerOptions& options,
                                                                  const ShutdownSignal& signal) {
  std::unique_ptr<ServerDaemon> daemon(new ServerDaemon(options));
  RETURN_IF_ERROR(OfConfiguration(daemon->Serve()));
  if (options.hold_pages) RETURN_IF_ERROR(daemon->Join(signal));
  daemon->watch_ =
      std::make_unique<Ticker>(kWatchPeriod, [watched = daemon.get()] { watched->Watch(); });
  return daemon;
}

ServerDaemon::ServerDaemon(const ServerOptions& options)
    : options_(options),
      budget_(options.memory_budget, &refusals_),
      stalled_(options.stalled_call_timeout, &Clock::Real(), &refusals_),
      stall_watch_(kLongestStep) {}

ServerDaemon::~ServerDaemon() { Shutdown("the server could not start"); }

v1::DaemonIdentity ServerDaemon::Identity() const {
  v1::DaemonIdentity identity;
  identity.set_role(v1::SERVER);
  identity.set_name(options_.name);
  identity.set_incarnation(options_.incarnation);
  return identity;
}

absl::Status ServerDaemon::MakeCoordinator(const std::string& host) {
  ServedData::Options data;
  data.memory_limit = options_.memory_limit;
  if (!options_.data_root.empty()) {
    ASSIGN_OR_RETURN(data.root, DataRoot::Create(options_.data_root), "--data_root");
  }
  Coordinator::Options control = options_.control;
  control.counts = &refusals_;
  if (!options_.state_dir.empty()) {
    ASSIGN_OR_RETURN(state_dir_, StateDir::Open(options_.state_dir, options_.name), "--state_dir");
    ASSIGN_OR_RETURN(store_, JobStore::Open(state_dir_->database()), "--state_dir");
    control.keep_records = true;
    if (options_.hold_pages) control.own_server = Identity();
    checkpoints_ = std::make_unique<CheckpointStore>(state_dir_->checkpoints());
    RETURN_IF_ERROR(checkpoints_->RemoveLeftovers(), "--state_dir");
    // Also when the database is lost: a new job must not mix with an old one's checkpoints.
    control.last_job = checkpoints_->LargestJob();
  } else if (absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Create("sangam");
             folder.ok()) {
    temporary_.emplace(*std::move(folder));
    checkpoints_ = std::make_unique<CheckpointStore>(temporary_->path());
  } else {
    LogWarning("no place for checkpoints: jobs of daemons that drain will begin anew", "why=%s",
               LogValue(folder.status().ToString()));
  }
  coordinator_ = std::make_unique<Coordinator>(control, &Clock::Real());
  if (checkpoints_ != nullptr) {
    checkpoint_writer_ = std::make_unique<CheckpointWriter>(
        coordinator_.get(), checkpoints_.get(),
        [this](const std::string& address, uint64_t job, uint64_t step, const TakeStatePage& page) {
          return state_reader_->ReadState(address, job, step, page);
        });
    coordinator_->SetCheckpoints(
        checkpoints_.get(), [writer = checkpoint_writer_.get()] { writer->Wake(); },
        /*lasting=*/state_dir_ != nullptr);
  }
  served_data_ = std::make_unique<ServedData>(
      std::move(data),
      [coordinator = coordinator_.get()](uint64_t job, uint64_t generation,
                                         const absl::StatusOr<v1::ReadyReport>& facts) {
        coordinator->OnServedData(job, generation, facts);
      });
  coordinator_->SetServing(
      [served = served_data_.get()](std::vector<std::shared_ptr<const v1::Assignment>> jobs) {
        served->Reconcile(std::move(jobs));
      });
  if (store_ != nullptr) {
    if (options_.admin != nullptr) options_.admin->readiness()->SetNotReady("restoring");
    RETURN_IF_ERROR(coordinator_->Restore(store_.get()), "--state_dir: \"%s\"",
                    state_dir_->database());
  }
  if (checkpoint_writer_ != nullptr) checkpoint_writer_->Start();
  Watchdog::Pulse* const pulse = options_.admin == nullptr
                                     ? nullptr
                                     : options_.admin->watchdog()->Add("coordinator", kLongestTick);
  ticker_ = std::make_unique<Ticker>(TickPeriod(options_.control.lease), [this, pulse] {
    if (pulse != nullptr) pulse->Beat();
    coordinator_->Advance();
    stalled_.Check();
  });
  starter_ = std::make_unique<Ticker>(TickPeriod(options_.control.lease),
                                      [this] { coordinator_->StartReady(); });
  const CallLimits limits = {&budget_, &stalled_, &refusals_};
  job_service_ = std::make_unique<GrpcJobService>(coordinator_.get(), limits);
  cluster_service_ = std::make_unique<GrpcClusterService>(coordinator_.get(), host, limits);
  admin_service_ = std::make_unique<GrpcAdminService>(coordinator_.get());
  DataService::Options data_options;
  data_options.stall_deadline = options_.stalled_call_timeout;
  data_options.counts = &refusals_;
  data_service_ = std::make_unique<DataService>(
      data_options, [this](uint64_t job) { return served_data_->Find(job); });
  return absl::OkStatus();
}

absl::Status ServerDaemon::Serve() {
  ASSIGN_OR_RETURN(const HostPort listen, ParseHostPort(options_.listen), "--listen");
  // What others call this machine.
  std::string host = IsWildcard(listen.host) ? PrimaryAddress() : listen.host;
  if (!options_.advertise.empty()) {
    ASSIGN_OR_RETURN(const HostPort advertised, ParseTarget(options_.advertise), "--advertise");
    host = advertised.host;
  }
  state_reader_ = std::make_unique<StateReader>();
  if (options_.coordinate) RETURN_IF_ERROR(MakeCoordinator(host));
  if (options_.hold_pages) {
    vote_connections_ = std::make_unique<VoteConnections>();
    ShardTableOptions table;
    table.memory_limit = options_.memory_limit;
    table.update_threads = options_.threads;
    table.open_link = [this](VoteLinkOptions link, std::weak_ptr<VoteSource> source) {
      return vote_connections_->Open(std::move(link), std::move(source));
    };
    table.read_checkpoint = [this](const v1::Assignment& assignment, const TakeStatePage& page) {
      return state_reader_->ReadCheckpoint(coordinator_address_, Identity(), assignment, page);
    };
    table.budget = &budget_;
    table.report = [this](v1::ReportRequest request) { Report(std::move(request)); };
    shards_ = std::make_unique<ShardTable>(options_.name, std::move(table));
    ParameterService::Options service;
    service.threads = options_.threads;
    service.stall_deadline = options_.stalled_call_timeout;
    service.counts = &refusals_;
    parameter_service_ = std::make_unique<ParameterService>(
        service, [this](uint64_t job) { return shards_->Find(job); },
        [this](uint64_t job) { return shards_->FindCounter(job); });
  }
  ServerRunner::Options runner;
  runner.listen = options_.listen;
  runner.max_connections = options_.max_connections;
  runner.stalled_call_timeout = options_.stalled_call_timeout;
  runner.budget = &budget_;
  runner.counts = &refusals_;
  if (options_.admin != nullptr) runner.readiness = options_.admin->readiness();
  runner.calls = &ProcessCalls();
  if (coordinator_ != nullptr) {
    runner.services = {"sangam.v1.JobService", "sangam.v1.ClusterService", "sangam.v1.DataService"};
  }
  if (parameter_service_ != nullptr) {
    runner.services.emplace_back("sangam.v1.ParameterService");
  }
  ASSIGN_OR_RETURN(runner_,
                   ServerRunner::Start(runner,
                                       [this](grpc::ServerBuilder* builder) {
                                         if (coordinator_ != nullptr) {
                                           builder->RegisterService(job_service_.get());
                                           builder->RegisterService(cluster_service_.get());
                                           builder->RegisterService(admin_service_.get());
                                           data_service_->Register(builder);
                                         }
                                         if (parameter_service_ != nullptr) {
                                           parameter_service_->Register(builder);
                                         }
                                       }),
                   "--listen");
  if (data_service_ != nullptr) data_service_->Start();
  if (parameter_service_ != nullptr) parameter_service_->Start();
  return absl::OkStatus();
}

absl::Status ServerDaemon::Join(const ShutdownSignal& signal) {
  const HostPort& bound = runner_->address();
  NodeAgent::Options agent;
  agent.coordinator = options_.coordinator;
  if (agent.coordinator.empty()) {
    agent.coordinator =
        ToString(HostPort{IsWildcard(bound.host) ? "127.0.0.1" : bound.host, bound.port});
  }
  coordinator_address_ = agent.coordinator;
  agent.start_deadline = options_.start_deadline;
  agent.log = options_.log;
  agent.cancelled = [&signal] { return signal.requested(); };
  v1::RegisterRequest* registration = &agent.registration;
  *registration->mutable_daemon() = Identity();
  registration->set_protocol_version(kProtocolVersion);
  registration->set_threads(options_.threads);
  registration->set_memory_bytes(options_.memory_limit);
  // Without a host of its own the server is where the coordinator sees it come from.
  registration->set_address(!options_.advertise.empty() ? options_.advertise
                            : IsWildcard(bound.host)    ? absl::StrCat(":", bound.port)
                                                        : ToString(bound));
  absl::StatusOr<std::unique_ptr<NodeAgent>> started = NodeAgent::Start(
      std::move(agent), [this](const auto& assignments) { OnAssignments(assignments); });
  if (!started.ok()) return WithContext(started.status(), "--coordinator");
  agent_ = *std::move(started);
  MutexLock lock(&mutex_);
  reporting_ = agent_.get();
  for (v1::ReportRequest& request : early_reports_) Send(reporting_, std::move(request));
  early_reports_.clear();
  return absl::OkStatus();
}

void ServerDaemon::OnAssignments(const std::vector<v1::Assignment>& assignments) {
  for (v1::ReportRequest& request : shards_->Reconcile(assignments)) Report(std::move(request));
}

void ServerDaemon::Report(v1::ReportRequest request) {
  MutexLock lock(&mutex_);
  if (reporting_ != nullptr) {
    Send(reporting_, std::move(request));
  } else if (!left_) {
    early_reports_.push_back(std::move(request));
  }
}

std::string ServerDaemon::address() const { return ToString(runner_->address()); }

absl::Status ServerDaemon::stopped() const {
  return agent_ == nullptr ? absl::OkStatus() : agent_->stopped();
}

std::string ServerDaemon::Describe() const {
  if (coordinator_ == nullptr) return "";
  std::string text;
  const v1::Cluster cluster = coordinator_->DescribeCluster();
  for (const v1::DaemonStatus& daemon : cluster.daemon()) {
    absl::StrAppend(&text, "daemon role=", daemon.role(), " name=", daemon.name(),
                    " address=", daemon.address(), " alive=", daemon.alive(),
                    " silent_ms=", daemon.silent_ms(), " jobs=", daemon.job_size(), "\n");
  }
  const v1::ListJobsResponse jobs = coordinator_->List(v1::ListJobsRequest());
  for (const v1::Job& job : jobs.job()) {
    absl::StrAppend(&text, "job id=", job.id(), " name=", LogValue(job.spec().name()),
                    " state=", v1::JobState_Name(job.state()), " reason=", LogValue(job.reason()),
                    "\n");
  }
  return text;
}

void ServerDaemon::Drain(absl::Duration timeout) {
  if (coordinator_ != nullptr && state_dir_ == nullptr) return;
  const absl::Duration end = Clock::Real().Steady() + timeout;
  if (agent_ != nullptr && !agent_->Drain(timeout)) LogLostJobs();
  if (checkpoint_writer_ != nullptr &&
      !checkpoint_writer_->AwaitIdle(end - Clock::Real().Steady())) {
    LogWarning("ends while a checkpoint is written; its job goes on from the one before",
               "timeout=%s", absl::FormatDuration(timeout));
  }
}

void ServerDaemon::LogLostJobs() const {
  if (shards_ == nullptr) return;
  for (const ShardTable::JobFacts& facts : shards_->Jobs()) {
    if (facts.held) continue;
    LogError(
        "leaves with pages that nobody has written down; the job goes back to its last checkpoint, "
        "and fails without one",
        "job=%d generation=%d pages=%d", facts.job, facts.generation, facts.pages);
  }
}

void ServerDaemon::Shutdown(const std::string& reason) {
  if (shut_down_) return;
  shut_down_ = true;
  watch_.reset();
  if (state_reader_ != nullptr) state_reader_->Stop();
  if (checkpoint_writer_ != nullptr) checkpoint_writer_->Stop();
  if (agent_ != nullptr) agent_->Leave(reason, kLeaveDeadline);
  {
    MutexLock lock(&mutex_);
    reporting_ = nullptr;
    left_ = true;
  }
  if (vote_connections_ != nullptr) vote_connections_->Stop();
  if (parameter_service_ != nullptr) parameter_service_->EndCalls();
  if (data_service_ != nullptr) data_service_->EndCalls();
  if (coordinator_ != nullptr) coordinator_->Shutdown();
  if (runner_ != nullptr) runner_->Shutdown(kShutdownDeadline);
  if (parameter_service_ != nullptr) parameter_service_->Stop();
  if (data_service_ != nullptr) data_service_->Stop();
  ticker_.reset();
  starter_.reset();
  if (served_data_ != nullptr) served_data_->Stop();
}

std::vector<v1::Job> ServerDaemon::AllJobs() const {
  std::vector<v1::Job> jobs;
  v1::ListJobsRequest request;
  request.set_page_size(1000);
  for (;;) {
    v1::ListJobsResponse page = coordinator_->List(request);
    for (v1::Job& job : *page.mutable_job()) jobs.push_back(std::move(job));
    if (!page.more() || page.job().empty()) return jobs;
    request.set_before_id(jobs.back().id());
  }
}

ServerSnapshot ServerDaemon::Snapshot() const {
  ServerSnapshot snapshot;
  if (coordinator_ != nullptr) {
    ServerSnapshot::Coordinating coordinating;
    coordinating.cluster = coordinator_->DescribeCluster();
    coordinating.jobs = AllJobs();
    coordinating.keeps_checkpoints = checkpoints_ != nullptr;
    MutexLock lock(&watch_mutex_);
    coordinating.stalls = stalls_;
    snapshot.coordinating = std::move(coordinating);
  }
  if (shards_ != nullptr) {
    ServerSnapshot::Holding holding;
    holding.jobs = shards_->Jobs();
    const auto ignored = shards_->ignored();
    holding.ignored_covered = ignored.covered;
    holding.ignored_finished = ignored.finished;
    holding.memory_bytes = shards_->MemoryBytes();
    holding.memory_limit = options_.memory_limit;
    holding.budget_bytes = budget_.bytes();
    holding.budget_used_bytes = budget_.used();
    holding.planned_bytes = budget_.planned();
    snapshot.holding = std::move(holding);
  }
  return snapshot;
}

void ServerDaemon::AddMetrics(MetricPage* page) const {
  AddRefusals(refusals_, page);
  AddServerMetrics(Snapshot(), ProcessCounters(), page);
}

void ServerDaemon::AddStatus(nlohmann::json* status) const {
  AddServerStatus(Snapshot(), ProcessCounters(), status);
}

void ServerDaemon::Watch() {
  Counters& counters = ProcessCounters();
  const absl::Duration now = Clock::Real().Steady();
  const uint64_t sync_since = counters.disk_sync_since_us.load();
  const absl::Duration sync = now - absl::Microseconds(sync_since);
  if (sync_since != 0 && sync_since != warned_of_sync_ && sync > kLongestSync) {
    warned_of_sync_ = sync_since;
    Counters::Add(&counters.disk_stalls, 1);
    LogWarning("the disk stalls", "waiting_seconds=%.0f state_dir=%s", absl::ToDoubleSeconds(sync),
               LogValue(options_.state_dir));
  }
  if (coordinator_ == nullptr) return;
  v1::ListJobsRequest request;
  request.set_page_size(1000);
  request.add_state(v1::RUNNING);
  std::vector<StallWatch::Sighting> running;
  const v1::ListJobsResponse listed = coordinator_->List(request);
  for (const v1::Job& job : listed.job()) {
    running.push_back({job.id(), job.generation(), job.progress().steps_done()});
  }
  std::vector<StallWatch::Stall> stalls;
  {
    MutexLock lock(&watch_mutex_);
    stalls = stalls_ = stall_watch_.Look(running, now);
  }
  for (const StallWatch::Stall& stall : stalls) {
    if (!stall.news) continue;
    std::vector<std::string> awaited = coordinator_->AwaitedWorkers(stall.job);
    const size_t all = awaited.size();
    awaited.resize(std::min(all, kNamedWorkers));
    LogWarning("job stalled", "job=%d without_step_seconds=%.0f awaited=%d workers=%s", stall.job,
               absl::ToDoubleSeconds(stall.since), all, LogValue(absl::StrJoin(awaited, ",")));
  }
}

}  // namespace sangam
