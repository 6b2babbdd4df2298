// The server daemon: `sangam-server --help`.

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
#include "server/server_daemon.h"

// kHelp explains them.
ABSL_FLAG(std::string, listen, "0.0.0.0:7070", "");
ABSL_FLAG(std::string, coordinator, "", "empty: this process");
ABSL_FLAG(std::string, role, "", "empty: all, or server with --coordinator");
ABSL_FLAG(std::string, advertise, "", "empty: as the coordinator sees it");
ABSL_FLAG(std::string, name, "", "empty: <hostname>-<pid>");
ABSL_FLAG(uint32_t, threads, 0, "0: one for each core");
ABSL_FLAG(uint64_t, memory_limit, 0, "bytes; 0: no limit");
ABSL_FLAG(std::string, data_root, "", "empty: no data is served");
ABSL_FLAG(std::string, state_dir, "", "empty: jobs are kept in memory only");
ABSL_FLAG(absl::Duration, lease, absl::Seconds(5), "");
ABSL_FLAG(uint32_t, keep_finished_jobs, 4, "");
ABSL_FLAG(double, link_gbps, 10, "");
ABSL_FLAG(std::string, log_level, "info", "");
ABSL_FLAG(std::string, ready_file, "", "");
ABSL_FLAG(absl::Duration, start_deadline, absl::Seconds(30), "");

namespace sangam {
namespace {

constexpr char kHelp[] = R"(Holds the weights of jobs, merges their gradients, and coordinates.

  sangam-server --listen=0.0.0.0:7070
      coordinator and parameter server in one
  sangam-server --listen=0.0.0.0:7071 --coordinator=10.0.0.1:7070
      one more parameter server
  sangam-server --role=coordinator --state_dir=/var/lib/sangam
      a coordinator alone, which keeps its jobs when it is started again

  --listen=HOST:PORT       where it answers; port 0 picks a free one; default:
                           0.0.0.0:7070
  --coordinator=HOST:PORT  the coordinator to join; without it this process is
                           the coordinator
  --role=ROLE              all, coordinator or server; default: all, or server
                           with --coordinator
  --advertise=HOST:PORT    where workers reach it; default: the port it listens
                           on, at the address that the coordinator sees
  --name=NAME              unique among the servers; default: <hostname>-<pid>
  --threads=N              threads that receive, sum and update; default: one
                           for each core
  --memory_limit=BYTES     weights and optimizer state that it may hold, and as
                           much of data that it serves; default: no limit
  --data_root=DIR          coordinator: the folder that jobs with data.served
                           may read data from; default: there is none, and such
                           jobs fail
  --state_dir=DIR          coordinator: the folder for what must outlive the
                           process: jobs and their history, checkpoints; made
                           when it is missing. A coordinator started again with
                           it goes on where the last one was. Default: in memory
                           only
  --lease=TIME             coordinator: how long a daemon may be silent;
                           default: 5s
  --keep_finished_jobs=N   coordinator: jobs whose weights can still be
                           exported; default: 4
  --link_gbps=N            coordinator: speed of the daemons' links in Gbit/s,
                           for the planner's predictions; default: 10
  --log_level=LEVEL        debug, info, warning or error; default: info
  --ready_file=PATH        written with HOST:PORT once it serves
  --start_deadline=TIME    how long the coordinator may be out of reach at the
                           start; default: 30s
  --version                prints the version
Serves the gRPC health check and reflection too. Ends in order on SIGTERM and
SIGINT; a second signal ends it at once.
)";

// Errors: InvalidArgument  names the flag, what was found and what was expected
absl::StatusOr<ServerOptions> OptionsFromFlags() {
  ServerOptions options;
  options.listen = absl::GetFlag(FLAGS_listen);
  options.coordinator = absl::GetFlag(FLAGS_coordinator);
  std::string role = absl::GetFlag(FLAGS_role);
  if (role.empty()) role = options.coordinator.empty() ? "all" : "server";
  if (role != "all" && role != "coordinator" && role != "server") {
    return absl::InvalidArgumentError(
        absl::StrCat("--role: found \"", role, "\", expected all, coordinator or server"));
  }
  if ((role == "server") == options.coordinator.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--role=", role, role == "server" ? " needs" : " does not go with",
                     " --coordinator=HOST:PORT"));
  }
  options.coordinate = role != "server";
  options.hold_pages = role != "coordinator";
  options.advertise = absl::GetFlag(FLAGS_advertise);
  options.name =
      absl::GetFlag(FLAGS_name).empty() ? DefaultDaemonName() : absl::GetFlag(FLAGS_name);
  options.incarnation = NewIncarnation();
  options.memory_limit = absl::GetFlag(FLAGS_memory_limit);
  options.data_root = absl::GetFlag(FLAGS_data_root);
  if (!options.coordinate && !options.data_root.empty()) {
    return absl::InvalidArgumentError(
        "--data_root: found one for a server that joins another coordinator, expected none; only "
        "the coordinator serves data");
  }
  options.state_dir = absl::GetFlag(FLAGS_state_dir);
  if (!options.coordinate && !options.state_dir.empty()) {
    return absl::InvalidArgumentError(
        "--state_dir: found one for a server that joins another coordinator, expected none; only "
        "the coordinator keeps state");
  }
  const uint32_t threads = absl::GetFlag(FLAGS_threads);
  if (threads > 1024) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads: found ", threads, ", expected at most 1024"));
  }
  options.threads =
      static_cast<int>(threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency()));
  options.start_deadline = absl::GetFlag(FLAGS_start_deadline);
  options.control.lease = absl::GetFlag(FLAGS_lease);
  if (options.control.lease < absl::Milliseconds(100) || options.control.lease > absl::Hours(1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--lease: found ", absl::FormatDuration(options.control.lease), ", expected 100ms to 1h"));
  }
  options.control.keep_finished_jobs = absl::GetFlag(FLAGS_keep_finished_jobs);
  const double link_gbps = absl::GetFlag(FLAGS_link_gbps);
  if (!(link_gbps >= 0.001 && link_gbps <= 100000)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--link_gbps: found ", link_gbps, ", expected 0.001 to 100000"));
  }
  options.control.link_bytes_per_second = link_gbps * 1e9 / 8;
  return options;
}

// Serves until a signal comes or the daemon cannot go on.
absl::Status Serve(ServerOptions options) {
  ShutdownSignal signal;
  JobLog log({});
  const ObserveLog observe(&log);
  options.log = &log;
  absl::StatusOr<std::unique_ptr<ServerDaemon>> daemon = ServerDaemon::Start(options, signal);
  if (absl::IsCancelled(daemon.status())) return absl::OkStatus();
  if (!daemon.ok()) return daemon.status();
  const std::string address = (*daemon)->address();
  LogInfo("server ready", "name=%s address=%s coordinator=%d pages=%d", options.name, address,
          options.coordinate, options.hold_pages);
  const std::string& ready_file = absl::GetFlag(FLAGS_ready_file);
  absl::Status status = ready_file.empty() ? absl::OkStatus() : WriteReadyFile(ready_file, address);
  while (status.ok() && !signal.WaitFor(absl::Milliseconds(500))) status = (*daemon)->stopped();
  const std::string reason = status.ok() ? signal.name() : std::string(status.message());
  (*daemon)->Shutdown(reason);
  LogInfo("server ends", "name=%s reason=%s", options.name, LogValue(reason));
  return status;
}

std::vector<char*> ParseFlags(int argc, char** argv) {
  const BadUsageExit bad_usage;
  return absl::ParseCommandLine(argc, argv);
}

int Main(int argc, char** argv) {
  const std::vector<char*> rest = ParseFlags(argc, argv);
  absl::Status status = SetLogLevel(absl::GetFlag(FLAGS_log_level));
  absl::StatusOr<ServerOptions> options = OptionsFromFlags();
  if (status.ok()) status = options.status();
  if (status.ok() && rest.size() > 1) {
    status = absl::InvalidArgumentError(absl::StrCat("found \"", rest[1], "\", expected flags"));
  }
  if (!status.ok()) {
    std::fprintf(stderr, "sangam-server: %s; see --help\n", std::string(status.message()).c_str());
    return 2;
  }
  RouteGrpcLog();
  status = Serve(*options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "sangam-server: %s\n", status.ToString().c_str());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace
}  // namespace sangam

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (argument == "--help") return std::fputs(sangam::kHelp, stdout) < 0;
    if (argument == "--version") return std::printf("sangam-server %s\n", sangam::kVersion) < 0;
  }
  absl::InitializeSymbolizer(argv[0]);
  absl::InstallFailureSignalHandler(absl::FailureSignalHandlerOptions());
  return sangam::Main(argc, argv);
}
