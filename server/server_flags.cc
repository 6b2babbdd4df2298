#include "server/server_flags.h"

#include <algorithm>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/exit_code.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"
#include "common/rpc/daemon_process.h"
#include "server/server_daemon.h"

namespace sangam {

void ServerFlags::AddFlags(FlagSet* flags) {
  flags->AddString({"listen", "HOST:PORT", "Where it answers; port 0 picks a free one."}, &listen);
  flags->AddString({"coordinator", "HOST:PORT",
                    "The coordinator to join; without it this process is the coordinator."},
                   &coordinator);
  flags->AddChoice({"role", "", "What it does. Default: all, or server with --coordinator."},
                   {"all", "coordinator", "server"}, &role);
  flags->AddString({"advertise", "HOST:PORT",
                    "Where workers reach it. Default: the port it listens on, at the address that "
                    "the coordinator sees."},
                   &advertise);
  flags->AddString(
      {"name", "NAME", "Unique among the servers. Default: the host's name and the process id."},
      &name);
  flags->AddCount({"threads", "N", "Threads that receive, sum and update; 0: one for each core."},
                  &threads, 0, 1024);
  flags->AddBytes({"memory_limit", "BYTES",
                   "Weights and optimizer state that it may hold, and as much of data that it "
                   "serves; 0 is no limit. Default: no limit."},
                  &memory_limit);
  flags->AddString({"data_root", "DIR",
                    "Coordinator: the folder that jobs with data.served may read data from. "
                    "Default: there is none, and such jobs fail."},
                   &data_root);
  flags->AddString({"state_dir", "DIR",
                    "Coordinator: the folder for what must outlive the process: jobs and their "
                    "history, checkpoints; made when it is missing. A coordinator started again "
                    "with it goes on where the last one was. Default: in memory only."},
                   &state_dir);
  flags->AddDuration({"lease", "TIME", "Coordinator: how long a daemon may be silent."}, &lease,
                     absl::Milliseconds(100), absl::Hours(1));
  flags->AddCount(
      {"keep_finished_jobs", "N", "Coordinator: jobs whose weights can still be exported."},
      &keep_finished_jobs, 0, 1'000'000);
  flags->AddReal({"link_gbps", "N",
                  "Coordinator: speed of the daemons' links in Gbit/s, for the planner's "
                  "predictions."},
                 &link_gbps, 0.001, 100'000);
  limits.AddServerFlags(flags);
  security.AddServerFlags(flags);
  admin.AddFlags(flags);
  daemon.AddFlags("HOST:PORT", flags);
}

absl::StatusOr<ServerOptions> ServerFlags::Options() const {
  ServerOptions options;
  options.listen = listen;
  options.coordinator = coordinator;
  const std::string part = !role.empty() ? role : coordinator.empty() ? "all" : "server";
  if ((part == "server") == coordinator.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--role=", part, part == "server" ? " needs" : " does not go with",
                     " --coordinator=HOST:PORT"));
  }
  options.coordinate = part != "server";
  options.hold_pages = part != "coordinator";
  if (!options.coordinate && !data_root.empty()) {
    return absl::InvalidArgumentError(
        "--data_root: found one for a server that joins another coordinator, expected none; only "
        "the coordinator serves data");
  }
  if (!options.coordinate && !state_dir.empty()) {
    return absl::InvalidArgumentError(
        "--state_dir: found one for a server that joins another coordinator, expected none; only "
        "the coordinator keeps state");
  }
  options.advertise = advertise;
  options.name = name.empty() ? DefaultDaemonName() : name;
  options.incarnation = NewIncarnation();
  options.memory_limit = memory_limit;
  options.data_root = data_root;
  options.state_dir = state_dir;
  options.threads =
      static_cast<int>(threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency()));
  options.start_deadline = daemon.start_deadline;
  options.memory_budget = limits.MemoryBudgetBytes();
  options.max_connections = limits.max_connections;
  options.stalled_call_timeout = limits.stalled_call_timeout;
  options.control.max_queued = limits.max_queued_jobs;
  options.control.max_queued_of_one = limits.max_queued_jobs_of_one;
  options.control.max_running_of_one = limits.max_running_jobs_of_one;
  options.control.lease = lease;
  options.control.keep_finished_jobs = keep_finished_jobs;
  options.control.link_bytes_per_second = link_gbps * 1e9 / 8;
  return options;
}

ProgramText ServerProgram() {
  ProgramText program;
  program.name = "sangam-server";
  program.summary = "Holds the weights of jobs, merges their gradients, and coordinates.";
  program.examples = {
      {"sangam-server", "coordinator and parameter server in one, for this machine"},
      {"sangam-server --listen=10.0.0.2:7070 --coordinator=10.0.0.1:7070 --tls_ca=ca.crt "
       "--tls_cert=server.crt --tls_key=server.key",
       "one more parameter server, for other machines"},
      {"sangam-server --role=coordinator --state_dir=/var/lib/sangam",
       "a coordinator alone, which keeps its jobs when it is started again"},
  };
  program.details = {
      "Serves the gRPC health check and reflection too. Ends in order on SIGTERM and SIGINT; a "
      "second signal ends it at once.",
      DaemonExitCodes(),
  };
  return program;
}

}  // namespace sangam
