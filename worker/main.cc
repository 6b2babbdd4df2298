// The worker daemon: `sangam-worker --help`.

#include <grpc/grpc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/debugging/failure_signal_handler.h"
#include "absl/debugging/symbolize.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/admin/admin_flags.h"
#include "common/admin/daemon_admin.h"
#include "common/base/exit_code.h"
#include "common/base/job_log.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/base/watchdog.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"
#include "common/metrics/call_counts.h"
#include "common/metrics/counters.h"
#include "common/rpc/daemon_command.h"
#include "common/rpc/daemon_loop.h"
#include "common/rpc/daemon_process.h"
#include "common/rpc/daemon_reload.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/node_agent.h"
#include "common/rpc/process_credentials.h"
#include "common/rpc/process_limits.h"
#include "common/rpc/process_state.h"
#include "common/rpc/service_notifier.h"
#include "common/security/identity.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "worker/agent_sink.h"
#include "worker/pipeline_server.h"
#include "worker/report_counts.h"
#include "worker/runtime/device_facts.h"
#include "worker/runtime/job_runner.h"
#include "worker/runtime/precision.h"
#include "worker/runtime/speed_probe.h"
#include "worker/worker_flags.h"
#include "worker/worker_metrics.h"

namespace sangam {
namespace {

constexpr absl::Duration kLeaveDeadline = absl::Seconds(3);
// The main loop looks around several times a second.
constexpr absl::Duration kLongestTurn = absl::Minutes(2);

// For measuring the backend's speed.
constexpr absl::Duration kProbeTime = absl::Milliseconds(30);

// Fills in what the worker is and can do.
NodeAgent::Options AgentOptions(const WorkerFlags& flags, const WorkerOptions& worker,
                                const v1::DeviceFacts& device, const std::string& address,
                                double flops_per_second) {
  NodeAgent::Options options;
  options.coordinator = flags.coordinator;
  options.start_deadline = flags.daemon.start_deadline;
  v1::RegisterRequest* registration = &options.registration;
  registration->mutable_daemon()->set_role(v1::WORKER);
  registration->mutable_daemon()->set_name(worker.name);
  registration->mutable_daemon()->set_incarnation(worker.incarnation);
  registration->set_protocol_version(kProtocolVersion);
  registration->set_address(address);
  registration->set_threads(worker.threads);
  registration->set_backend(worker.backend);
  registration->set_flops_per_second(flops_per_second);
  for (const v1::Precision precision : NativePrecisions(worker.backend, worker.device)) {
    registration->add_native_precision(precision);
  }
  uint64_t memory = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  if (!device.name().empty() || !device.compute_capability().empty()) {
    *registration->mutable_device() = device;
  }
  if (!device.name().empty()) memory = device.memory_bytes();
  registration->set_memory_bytes(worker.memory_limit > 0 ? worker.memory_limit : memory);
  return options;
}

// A device that is missing may come: only an unknown backend is a fault of the configuration.
absl::StatusOr<v1::DeviceFacts> FindDevice(const WorkerOptions& options) {
  const absl::StatusOr<v1::DeviceFacts> device = DescribeDevice(options.backend, options.device);
  const absl::Status status = WithContext(
      device.status(), absl::StrCat("--backend=", options.backend, " --device=", options.device));
  if (absl::IsInvalidArgument(status)) return OfConfiguration(status);
  if (!status.ok()) return status;
  return device;
}

// Works until a signal comes or the agent cannot go on.
absl::StatusOr<DaemonEnd> Work(const WorkerFlags& flags, WorkerOptions options, DaemonParts parts,
                               DaemonAdmin* admin, ShutdownSignal* signal,
                               ServiceNotifier* notifier) {
  RETURN_IF_ERROR(OfConfiguration(admin->Serve(flags.admin)));
  Watchdog::Pulse* const pulse = admin->watchdog()->Add("main", kLongestTurn);
  JobLog log({});
  const ObserveLog observe(&log);
  PipelineServer::Options listen = flags.ListenOptions();
  listen.readiness = admin->readiness();
  listen.calls = &ProcessCalls();
  absl::StatusOr<std::unique_ptr<PipelineServer>> server = PipelineServer::Start(listen);
  if (!server.ok()) return OfConfiguration(server.status());
  options.make_pipeline_link = (*server)->Factory();
  ASSIGN_OR_RETURN(const v1::DeviceFacts device, FindDevice(options));
  if (options.threads == 0) {
    options.threads = device.name().empty() ? std::max(1u, std::thread::hardware_concurrency()) : 1;
  }
  absl::StatusOr<std::unique_ptr<JobRunner>> runner = JobRunner::Create(options);
  if (!runner.ok()) return OfConfiguration(runner.status());
  ASSIGN_OR_RETURN(const double flops_per_second,
                   MeasureFlopsPerSecond(options.backend, options.device, kProbeTime), "--backend");
  NodeAgent::Options agent_options =
      AgentOptions(flags, options, device, (*server)->address(), flops_per_second);
  agent_options.log = &log;
  agent_options.cancelled = [signal] { return signal->requested(); };
  ASSIGN_OR_RETURN(
      const std::unique_ptr<NodeAgent> agent,
      NodeAgent::Start(std::move(agent_options),
                       [&runner](const auto& assignments) { (*runner)->Reconcile(assignments); }),
      "--coordinator");
  AgentSink sink(agent.get());
  ReportCounts reports(&sink);
  const WorkerMetrics metrics(
      {options.backend, device, options.threads, flops_per_second, (*server)->address()}, &reports,
      &ProcessCounters(), &(*server)->refusals());
  const ShowSource show(admin, &metrics);
  (*runner)->Start(&reports);
  admin->readiness()->SetReady();
  absl::Status written;
  if (!flags.daemon.ready_file.empty()) {
    written = OfConfiguration(
        WithContext(WriteReadyFile(flags.daemon.ready_file, options.name), "--ready_file"));
  }
  LogInfo("worker ready", "name=%s backend=%s device=%s threads=%d address=%s gflops=%.1f",
          options.name, options.backend, LogValue(device.name()), options.threads,
          LogValue((*server)->address()), flops_per_second / 1e9);
  parts.serving = absl::StrCat("working for ", flags.coordinator, " as ", options.name);
  parts.stopped = [&agent, &written] { return written.ok() ? agent->stopped() : written; };
  parts.alive = [pulse] { pulse->Beat(); };
  parts.describe = [&parts] { return absl::StrCat(parts.serving, " ", DescribeProcess()); };
  parts.drain = [&agent, admin](absl::Duration timeout) {
    admin->readiness()->SetNotReady("draining");
    agent->Drain(timeout);
  };
  const DaemonEnd end = RunDaemonLoop(parts, signal, notifier);
  admin->readiness()->SetNotReady("ending");
  agent->EndWaits();
  (*runner)->Stop();
  agent->Leave(end.reason, kLeaveDeadline);
  (*server)->Shutdown();
  LogInfo("worker ends", "name=%s reason=%s", options.name, LogValue(end.reason));
  return end;
}

int Main(int argc, char** argv) {
  const ProgramText program = WorkerProgram();
  const Invocation invocation = Invocation::Of(argc, argv, environ);
  WorkerFlags flags;
  FlagSet set;
  flags.AddFlags(&set);
  const std::string version =
      VersionLine(program.name, HasBackend("cuda") ? "CUDA yes" : "CUDA no");
  const std::optional<ExitCode> answer =
      ReadDaemonFlags(invocation, program, version, flags.daemon, &set);
  if (answer.has_value()) return static_cast<int>(*answer);
  const absl::Status check = flags.Check();
  if (!check.ok()) return EndWithUsage(program, check);
  LimitProcess(flags.daemon.core_dumps);
  RouteGrpcLog();
  const absl::Status format = flags.admin.SetUpLog(program.name);
  if (!format.ok()) return EndWithUsage(program, format);
  DaemonReload reload(set.values(), [&invocation] { return ReadValues<WorkerFlags>(invocation); });
  reload.OnChange("log_level", [](const std::string& level) { return SetLogLevel(level); });
  DaemonParts parts;
  parts.drain_timeout = flags.daemon.drain_timeout;
  parts.reload = [&reload] { reload.Run(); };
  // Before gRPC has threads, which would take the signals.
  ShutdownSignal signal;
  ServiceNotifier notifier(invocation.environment);
  const absl::StatusOr<std::shared_ptr<ProcessCredentials>> credentials =
      ProcessCredentials::ForDaemon(flags.security, RoleSet(Role::kWorker));
  if (!credentials.ok()) return EndDaemon(program, credentials.status());
  SetProcessCredentials(*credentials);
  WorkerOptions options = flags.Options();
  // A certificate with a name allows no other one.
  const std::optional<Identity>& identity = (*credentials)->identity();
  if (flags.name.empty() && identity.has_value() && !identity->name.empty()) {
    options.name = identity->name;
  }
  reload.OnReload("credentials", [&credentials]() -> absl::StatusOr<std::string> {
    (*credentials)->Reload();
    return (*credentials)->TakeNews();
  });
  // For good: the end of gRPC's last object can wait 10 s for a poller of its own, which it starts
  // when a large tensor does not fit into the connection.
  grpc_init();
  DaemonAdmin admin({"worker", options.name, options.incarnation, FlagsInEffect(set)});
  const absl::StatusOr<DaemonEnd> end =
      Work(flags, std::move(options), std::move(parts), &admin, &signal, &notifier);
  if (absl::IsCancelled(end.status()) && signal.requested()) return 128 + signal.number();
  if (!end.ok()) return EndDaemon(program, end.status());
  if (!end->status.ok()) return EndDaemon(program, end->status);
  return static_cast<int>(end->exit_code());
}

}  // namespace
}  // namespace sangam

int main(int argc, char** argv) {
  absl::InitializeSymbolizer(argv[0]);
  absl::InstallFailureSignalHandler(absl::FailureSignalHandlerOptions());
  return sangam::Main(argc, argv);
}
