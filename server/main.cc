// The server daemon: `sangam-server --help`.

#include <grpc/grpc.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>

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
#include "common/base/watchdog.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"
#include "common/rpc/daemon_command.h"
#include "common/rpc/daemon_loop.h"
#include "common/rpc/daemon_process.h"
#include "common/rpc/daemon_reload.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/process_credentials.h"
#include "common/rpc/process_limits.h"
#include "common/rpc/process_state.h"
#include "common/rpc/service_notifier.h"
#include "common/security/identity.h"
#include "server/server_daemon.h"
#include "server/server_flags.h"

namespace sangam {
namespace {

// The main loop looks around several times a second.
constexpr absl::Duration kLongestTurn = absl::Minutes(2);

// Serves until a signal comes or the daemon cannot go on; returns how the process ends.
int Serve(const Invocation& invocation, const ServerFlags& flags, const FlagSet& set,
          ServerOptions options, DaemonReload* reload) {
  ShutdownSignal signal;
  ServiceNotifier notifier(invocation.environment);
  // For good: the end of gRPC's last object can wait 10 s for a poller of its own.
  grpc_init();
  const absl::StatusOr<std::shared_ptr<ProcessCredentials>> credentials =
      ProcessCredentials::ForDaemon(
          flags.security, RoleSet(options.coordinate ? Role::kCoordinator : Role::kServer));
  if (!credentials.ok()) return EndDaemon(ServerProgram(), credentials.status());
  SetProcessCredentials(*credentials);
  // A certificate with a name allows no other one.
  const std::optional<Identity>& identity = (*credentials)->identity();
  if (flags.name.empty() && identity.has_value() && !identity->name.empty()) {
    options.name = identity->name;
  }
  reload->OnReload("credentials", [&credentials]() -> absl::StatusOr<std::string> {
    (*credentials)->Reload();
    return (*credentials)->TakeNews();
  });
  reload->OnReload("audit_log", [&credentials] { return (*credentials)->audit_log()->Reopen(); });
  DaemonAdmin admin({options.coordinate ? "coordinator" : "server", options.name,
                     options.incarnation, FlagsInEffect(set)});
  const absl::Status shown = admin.Serve(flags.admin);
  if (!shown.ok()) return EndDaemon(ServerProgram(), OfConfiguration(shown));
  Watchdog::Pulse* const pulse = admin.watchdog()->Add("main", kLongestTurn);
  options.admin = &admin;
  JobLog log({});
  const ObserveLog observe(&log);
  options.log = &log;
  absl::StatusOr<std::unique_ptr<ServerDaemon>> daemon = ServerDaemon::Start(options, signal);
  if (absl::IsCancelled(daemon.status())) return 128 + signal.number();
  if (!daemon.ok()) return EndDaemon(ServerProgram(), daemon.status());
  const ShowSource show(&admin, daemon->get());
  admin.readiness()->SetReady();
  const std::string address = (*daemon)->address();
  LogInfo("server ready", "name=%s address=%s coordinator=%d pages=%d", options.name, address,
          options.coordinate, options.hold_pages);
  if (!flags.daemon.ready_file.empty()) {
    const absl::Status written = WriteReadyFile(flags.daemon.ready_file, address);
    if (!written.ok()) {
      return EndDaemon(ServerProgram(), OfConfiguration(WithContext(written, "--ready_file")));
    }
  }
  DaemonParts parts;
  parts.serving = absl::StrCat("serving at ", address);
  parts.stopped = [&daemon] { return (*daemon)->stopped(); };
  parts.alive = [pulse] { pulse->Beat(); };
  parts.drain_timeout = flags.daemon.drain_timeout;
  parts.reload = [reload] { reload->Run(); };
  parts.describe = [&daemon, &parts] {
    return absl::StrCat(parts.serving, " ", DescribeProcess(), "\n", (*daemon)->Describe());
  };
  parts.drain = [&daemon, &admin](absl::Duration timeout) {
    admin.readiness()->SetNotReady("draining");
    (*daemon)->Drain(timeout);
  };
  const DaemonEnd end = RunDaemonLoop(parts, &signal, &notifier);
  admin.readiness()->SetNotReady("ending");
  (*daemon)->Shutdown(end.reason);
  LogInfo("server ends", "name=%s reason=%s", options.name, LogValue(end.reason));
  if (!end.status.ok()) return EndDaemon(ServerProgram(), end.status);
  return static_cast<int>(end.exit_code());
}

int Main(int argc, char** argv) {
  const ProgramText program = ServerProgram();
  const Invocation invocation = Invocation::Of(argc, argv, environ);
  ServerFlags flags;
  FlagSet set;
  flags.AddFlags(&set);
  const std::optional<ExitCode> answer = ReadDaemonFlags(
      invocation, program, VersionLine(program.name, "CUDA no"), flags.daemon, &set);
  if (answer.has_value()) return static_cast<int>(*answer);
  const absl::StatusOr<ServerOptions> options = flags.Options();
  if (!options.ok()) return EndWithUsage(program, options.status());
  LimitProcess(flags.daemon.core_dumps);
  RouteGrpcLog();
  const absl::Status format = flags.admin.SetUpLog(program.name);
  if (!format.ok()) return EndWithUsage(program, format);
  DaemonReload reload(set.values(), [&invocation] { return ReadValues<ServerFlags>(invocation); });
  reload.OnChange("log_level", [](const std::string& level) { return SetLogLevel(level); });
  return Serve(invocation, flags, set, *options, &reload);
}

}  // namespace
}  // namespace sangam

int main(int argc, char** argv) {
  absl::InitializeSymbolizer(argv[0]);
  absl::InstallFailureSignalHandler(absl::FailureSignalHandlerOptions());
  return sangam::Main(argc, argv);
}
