#ifndef SANGAM_COMMON_RPC_DAEMON_LOOP_H_
#define SANGAM_COMMON_RPC_DAEMON_LOOP_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/exit_code.h"
#include "common/rpc/daemon_process.h"
#include "common/rpc/service_notifier.h"

namespace sangam {

// What the loop asks of the daemon. All but `drain` are called by the main thread, and may not
// block for long: the service manager waits for signs of life.
struct DaemonParts {
  std::string serving;  // a line for people: "serving at 10.0.0.1:7070"
  // OK while it can go on.
  std::function<absl::Status()> stopped = [] { return absl::OkStatus(); };
  // Each turn of the loop, at least twice a second: the main thread is alive.
  std::function<void()> alive = [] {};
  // The first SIGTERM or SIGINT has come: gives away what can be given away, and returns when
  // nothing is left or after `timeout`. Called once, on a thread of its own: the main thread stays
  // alive meanwhile.
  std::function<void(absl::Duration timeout)> drain = [](absl::Duration) {};
  absl::Duration drain_timeout = absl::Seconds(60);
  // SIGHUP: read the configuration again.
  std::function<void()> reload = [] {};
  // SIGUSR1: the daemon's state, in lines for people; they go to the log.
  std::function<std::string()> describe = [] { return std::string(); };
};

// What ended the daemon's work.
struct DaemonEnd {
  // Not OK: it cannot go on.
  absl::Status status;
  // SIGTERM or SIGINT; 0: none, then `status` says why.
  int signal = 0;
  // Why, in a few words: the signal's name or the status' message.
  std::string reason;

  // 143, 130, or what the status means.
  ExitCode exit_code() const;
};

// Serves until the daemon cannot go on, or until a signal has come and it is drained or out of
// time. The daemon is still to be shut down then.
DaemonEnd RunDaemonLoop(const DaemonParts& parts, ShutdownSignal* signal,
                        ServiceNotifier* notifier);

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_DAEMON_LOOP_H_
