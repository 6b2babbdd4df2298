#include "worker/worker_flags.h"

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/exit_code.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"
#include "common/rpc/daemon_process.h"
#include "proto/plan.pb.h"
#include "worker/pipeline_server.h"
#include "worker/rpc/grpc_parameter_link.h"
#include "worker/rpc/served_batches.h"
#include "worker/runtime/job_runner.h"

namespace sangam {

void WorkerFlags::AddFlags(FlagSet* flags) {
  flags->AddString({"coordinator", "HOST:PORT", "Where the coordinator answers; required."},
                   &coordinator);
  flags->AddString({"data_root", "DIR",
                    "The folder that jobs may read data from; without it the worker takes only "
                    "jobs whose data the coordinator serves."},
                   &data_root);
  flags->AddChoice({"backend", "", "What computes: the processor, or a GPU in a build with CUDA."},
                   {"cpu", "cuda"}, &backend);
  flags->AddCount({"device", "N", "Which of the machine's GPUs, from 0 as nvidia-smi counts them."},
                  &device, 0, 1023);
  flags->AddChoice({"cuda_graphs", "",
                    "With --backend=cuda, whether what a step repeats is given to the GPU as one "
                    "piece."},
                   {"on", "off"}, &cuda_graphs);
  flags->AddCount(
      {"threads", "N", "Compute threads of a job; 0: one for each core, with --backend=cuda 1."},
      &threads, 0, 1024);
  flags->AddString({"listen", "HOST:PORT",
                    "Where other workers reach it: by default a free port that only this machine "
                    "reaches; :0 is a free port at all addresses."},
                   &listen);
  flags->AddString({"advertise", "HOST[:PORT]",
                    "What others connect to. Default: where it listens, and on all addresses the "
                    "host that the coordinator sees."},
                   &advertise);
  flags->AddString(
      {"name", "NAME", "Unique among the workers. Default: the host's name and the process id."},
      &name);
  flags->AddBytes({"memory_limit", "BYTES",
                   "Memory that a job may use; 0 is all there is. Default: all there is, with "
                   "--backend=cuda the GPU's."},
                  &memory_limit);
  limits.AddWorkerFlags(flags);
  security.AddWorkerFlags(flags);
  admin.AddFlags(flags);
  daemon.AddFlags("the worker's name", flags);
}

absl::Status WorkerFlags::Check() const {
  if (coordinator.empty()) {
    return absl::InvalidArgumentError("--coordinator=HOST:PORT is required");
  }
  return absl::OkStatus();
}

WorkerOptions WorkerFlags::Options() const {
  WorkerOptions options;
  options.name = name.empty() ? DefaultDaemonName() : name;
  options.incarnation = NewIncarnation();
  options.data_root = data_root;
  options.backend = backend;
  options.device = static_cast<int>(device);
  options.threads = static_cast<uint32_t>(threads);
  options.graphs = cuda_graphs == "on";
  options.memory_limit = memory_limit;
  options.make_link = [](const v1::Plan& plan, uint32_t worker) {
    return GrpcParameterLink::Create(plan, worker, GrpcParameterLink::Options());
  };
  ServedBatches::Options feed;
  feed.coordinator = coordinator;
  options.make_feed = ServedBatches::Factory(feed);
  return options;
}

PipelineServer::Options WorkerFlags::ListenOptions() const {
  PipelineServer::Options options;
  options.listen = listen;
  options.advertise = advertise;
  if (limits.memory_budget > 0) options.memory_budget = limits.MemoryBudgetBytes();
  options.max_connections = limits.max_connections;
  options.stalled_call_timeout = limits.stalled_call_timeout;
  return options;
}

ProgramText WorkerProgram() {
  ProgramText program;
  program.name = "sangam-worker";
  program.summary = "Trains jobs that the coordinator assigns to it.";
  program.examples = {
      {"sangam-worker --coordinator=127.0.0.1:7070 --data_root=/usr/share/datasets",
       "a worker beside its coordinator"},
      {"sangam-worker --coordinator=10.0.0.1:7070 --listen=:7071 --backend=cuda --device=1 "
       "--tls_ca=ca.crt --tls_cert=worker.crt --tls_key=worker.key",
       "a worker that trains on the machine's second GPU, and that others reach"},
  };
  program.details = {
      "Ends in order on SIGTERM and SIGINT; a second signal ends it at once.",
      DaemonExitCodes(),
  };
  return program;
}

}  // namespace sangam
