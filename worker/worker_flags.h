#ifndef SANGAM_WORKER_WORKER_FLAGS_H_
#define SANGAM_WORKER_WORKER_FLAGS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/admin/admin_flags.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"
#include "common/rpc/daemon_flags.h"
#include "common/rpc/limit_flags.h"
#include "common/security/security_flags.h"
#include "worker/pipeline_server.h"
#include "worker/runtime/job_runner.h"

namespace sangam {

// The flags of sangam-worker; what they mean stands in AddFlags.
struct WorkerFlags {
  DaemonFlags daemon;
  SecurityFlags security;
  LimitFlags limits;
  AdminFlags admin;
  std::string coordinator;  // required
  std::string data_root;
  std::string backend = "cpu";
  uint64_t device = 0;
  std::string cuda_graphs = "on";
  uint64_t threads = 0;  // 0: one for each core, or 1 with a device
  std::string listen = "127.0.0.1:0";
  std::string advertise;  // empty: where it listens
  std::string name;
  uint64_t memory_limit = 0;  // bytes; 0: all there is

  // This must outlive the set.
  void AddFlags(FlagSet* flags);

  // Errors: InvalidArgument  a required flag is missing; names it
  absl::Status Check() const;
  WorkerOptions Options() const;
  PipelineServer::Options ListenOptions() const;
};

ProgramText WorkerProgram();

}  // namespace sangam

#endif  // SANGAM_WORKER_WORKER_FLAGS_H_
