#ifndef SANGAM_SERVER_SERVER_FLAGS_H_
#define SANGAM_SERVER_SERVER_FLAGS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/admin/admin_flags.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"
#include "common/rpc/daemon_flags.h"
#include "common/rpc/limit_flags.h"
#include "common/security/security_flags.h"
#include "server/server_daemon.h"

namespace sangam {

// The flags of sangam-server; what they mean stands in AddFlags.
struct ServerFlags {
  DaemonFlags daemon;
  SecurityFlags security;
  LimitFlags limits;
  AdminFlags admin;
  std::string listen = "127.0.0.1:7070";
  std::string coordinator;  // empty: this process
  std::string role;         // empty: all, or server with --coordinator
  std::string advertise;
  std::string name;
  uint64_t threads = 0;       // 0: one for each core
  uint64_t memory_limit = 0;  // bytes; 0: no limit
  std::string data_root;
  std::string state_dir;
  absl::Duration lease = absl::Seconds(5);
  uint64_t keep_finished_jobs = 4;
  double link_gbps = 10;

  // This must outlive the set.
  void AddFlags(FlagSet* flags);

  // Errors: InvalidArgument  flags that do not go with one another; names them
  absl::StatusOr<ServerOptions> Options() const;
};

ProgramText ServerProgram();

}  // namespace sangam

#endif  // SANGAM_SERVER_SERVER_FLAGS_H_
