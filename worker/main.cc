// The worker daemon: `sangam-worker --help`.

#include <grpc/grpc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/debugging/failure_signal_handler.h"
#include "absl/debugging/symbolize.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/job_log.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/rpc/daemon_process.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/node_agent.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/agent_sink.h"
#include "worker/pipeline_server.h"
#include "worker/rpc/grpc_parameter_link.h"
#include "worker/rpc/served_batches.h"
#include "worker/runtime/device_facts.h"
#include "worker/runtime/job_runner.h"
#include "worker/runtime/precision.h"
#include "worker/runtime/speed_probe.h"

// kHelp explains them.
ABSL_FLAG(std::string, coordinator, "", "required");
ABSL_FLAG(std::string, data_root, "", "");
ABSL_FLAG(uint32_t, threads, 0, "0: one for each core, or 1 with a device");
ABSL_FLAG(std::string, backend, "cpu", "");
ABSL_FLAG(uint32_t, device, 0, "");
ABSL_FLAG(std::string, listen, "127.0.0.1:0", "");
ABSL_FLAG(std::string, advertise, "", "empty: where it listens");
ABSL_FLAG(std::string, name, "", "empty: <hostname>-<pid>");
ABSL_FLAG(uint64_t, memory_limit, 0, "bytes; 0: all there is");
ABSL_FLAG(std::string, log_level, "info", "");
ABSL_FLAG(std::string, ready_file, "", "");
ABSL_FLAG(absl::Duration, start_deadline, absl::Seconds(30), "");

namespace sangam {
namespace {

constexpr char kHelp[] = R"(Trains jobs that the coordinator assigns to it.

  sangam-worker --coordinator=10.0.0.1:7070 --data_root=/usr/share/datasets

  --coordinator=HOST:PORT  where the coordinator answers; required
  --data_root=DIR          the folder that jobs may read data from; without it
                           the worker takes only jobs whose data the coordinator
                           serves
  --backend=cpu|cuda       what computes: the processor, or a GPU in a build
                           with --config=cuda; default: cpu
  --device=N               which of the machine's GPUs, from 0 as nvidia-smi
                           counts them; default: 0
  --threads=N              compute threads of a job; default: one for each core,
                           with --backend=cuda 1
  --listen=HOST:PORT       where other workers reach it; default: 127.0.0.1:0, a
                           free port that only this machine reaches; :0 for all
                           addresses
  --advertise=HOST[:PORT]  what others connect to; default: where it listens,
                           and on all addresses the host that the coordinator
                           sees
  --name=NAME              unique among the workers; default: <hostname>-<pid>
  --memory_limit=BYTES     memory that a job may use; default: all there is, with
                           --backend=cuda the GPU's
  --log_level=LEVEL        debug, info, warning or error; default: info
  --ready_file=PATH        written with the worker's name once it is registered
  --start_deadline=TIME    how long the coordinator may be out of reach at the
                           start; default: 30s
  --version                prints the version
Ends in order on SIGTERM and SIGINT; a second signal ends it at once.
)";

constexpr absl::Duration kLeaveDeadline = absl::Seconds(3);

// For measuring the backend's speed.
constexpr absl::Duration kProbeTime = absl::Milliseconds(30);

WorkerOptions OptionsFromFlags() {
  WorkerOptions options;
  options.name =
      absl::GetFlag(FLAGS_name).empty() ? DefaultDaemonName() : absl::GetFlag(FLAGS_name);
  options.incarnation = NewIncarnation();
  options.data_root = absl::GetFlag(FLAGS_data_root);
  options.backend = absl::GetFlag(FLAGS_backend);
  options.device = static_cast<int>(absl::GetFlag(FLAGS_device));
  options.threads = absl::GetFlag(FLAGS_threads);
  options.memory_limit = absl::GetFlag(FLAGS_memory_limit);
  options.make_link = [](const v1::Plan& plan, uint32_t worker) {
    return GrpcParameterLink::Create(plan, worker, GrpcParameterLink::Options());
  };
  ServedBatches::Options feed;
  feed.coordinator = absl::GetFlag(FLAGS_coordinator);
  options.make_feed = ServedBatches::Factory(feed);
  return options;
}

PipelineServer::Options ListenOptions() {
  PipelineServer::Options options;
  options.listen = absl::GetFlag(FLAGS_listen);
  options.advertise = absl::GetFlag(FLAGS_advertise);
  return options;
}

NodeAgent::Options AgentOptions(const WorkerOptions& worker, const v1::DeviceFacts& device,
                                const std::string& address, double flops_per_second,
                                const ShutdownSignal& signal, JobLog* log) {
  NodeAgent::Options options;
  options.log = log;
  options.coordinator = absl::GetFlag(FLAGS_coordinator);
  options.start_deadline = absl::GetFlag(FLAGS_start_deadline);
  options.cancelled = [&signal] { return signal.requested(); };
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
  if (!device.name().empty()) {
    *registration->mutable_device() = device;
    memory = device.memory_bytes();
  }
  registration->set_memory_bytes(worker.memory_limit > 0 ? worker.memory_limit : memory);
  return options;
}

// Works until a signal comes or the agent cannot go on.
absl::Status Serve(WorkerOptions options) {
  // Before gRPC has threads, which would take the signals.
  ShutdownSignal signal;
  JobLog log({});
  const ObserveLog observe(&log);
  // For good: the end of gRPC's last object can wait 10 s for a poller of its own, which it starts
  // when a large tensor does not fit into the connection.
  grpc_init();
  ASSIGN_OR_RETURN(const std::unique_ptr<PipelineServer> server,
                   PipelineServer::Start(ListenOptions()));
  options.make_pipeline_link = server->Factory();
  ASSIGN_OR_RETURN(const v1::DeviceFacts device, DescribeDevice(options.backend, options.device),
                   "--backend=%s --device=%d", options.backend, options.device);
  if (options.threads == 0) {
    options.threads = device.name().empty() ? std::max(1u, std::thread::hardware_concurrency()) : 1;
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<JobRunner> runner, JobRunner::Create(options));
  ASSIGN_OR_RETURN(const double flops_per_second,
                   MeasureFlopsPerSecond(options.backend, options.device, kProbeTime), "--backend");
  absl::StatusOr<std::unique_ptr<NodeAgent>> agent = NodeAgent::Start(
      AgentOptions(options, device, server->address(), flops_per_second, signal, &log),
      [&runner](const auto& assignments) { runner->Reconcile(assignments); });
  if (absl::IsCancelled(agent.status())) return absl::OkStatus();
  if (!agent.ok()) return WithContext(agent.status(), "--coordinator");
  AgentSink sink(agent->get());
  runner->Start(&sink);
  const std::string& ready_file = absl::GetFlag(FLAGS_ready_file);
  absl::Status status =
      ready_file.empty() ? absl::OkStatus() : WriteReadyFile(ready_file, options.name);
  LogInfo("worker ready", "name=%s backend=%s device=%s threads=%d address=%s gflops=%.1f",
          options.name, options.backend, LogValue(device.name()), options.threads,
          LogValue(server->address()), flops_per_second / 1e9);
  while (status.ok() && !signal.WaitFor(absl::Milliseconds(500))) status = (*agent)->stopped();
  (*agent)->EndWaits();
  runner->Stop();
  const std::string reason = status.ok() ? signal.name() : std::string(status.message());
  (*agent)->Leave(reason, kLeaveDeadline);
  server->Shutdown();
  LogInfo("worker ends", "name=%s reason=%s", options.name, LogValue(reason));
  return status;
}

std::vector<char*> ParseFlags(int argc, char** argv) {
  const BadUsageExit bad_usage;
  return absl::ParseCommandLine(argc, argv);
}

}  // namespace
}  // namespace sangam

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (argument == "--help") return std::fputs(sangam::kHelp, stdout) < 0;
    if (argument == "--version") return std::printf("sangam-worker %s\n", sangam::kVersion) < 0;
  }
  absl::InitializeSymbolizer(argv[0]);
  absl::InstallFailureSignalHandler(absl::FailureSignalHandlerOptions());
  const std::vector<char*> rest = sangam::ParseFlags(argc, argv);
  absl::Status status = sangam::SetLogLevel(absl::GetFlag(FLAGS_log_level));
  if (rest.size() > 1) {
    status = absl::InvalidArgumentError(absl::StrCat("found \"", rest[1], "\", expected flags"));
  } else if (absl::GetFlag(FLAGS_coordinator).empty()) {
    status = absl::InvalidArgumentError("--coordinator=HOST:PORT is required");
  }
  if (!status.ok()) {
    std::fprintf(stderr, "sangam-worker: %s; see --help\n", std::string(status.message()).c_str());
    return 2;
  }
  sangam::RouteGrpcLog();
  status = sangam::Serve(sangam::OptionsFromFlags());
  if (status.ok()) return 0;
  std::fprintf(stderr, "sangam-worker: %s\n", status.ToString().c_str());
  return 1;
}
