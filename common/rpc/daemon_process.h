#ifndef SANGAM_COMMON_RPC_DAEMON_PROCESS_H_
#define SANGAM_COMMON_RPC_DAEMON_PROCESS_H_

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

// What the main function of every daemon needs.
namespace sangam {

// "<hostname>-<pid>", with '-' in place of what a daemon's name must not contain.
std::string DefaultDaemonName();

// Larger at each start of a process: nanoseconds since 1970.
uint64_t NewIncarnation();

// Writes `line` and a newline to `path` so that a reader sees all of it or no file.
// Errors: as the system says, with the path
absl::Status WriteReadyFile(const std::string& path, absl::string_view line);

// Takes the signals of a daemon from the moment it is made: SIGTERM and SIGINT, SIGHUP (read the
// configuration again) and SIGUSR1 (describe yourself). Make it before any thread, so that the
// threads inherit that these signals are blocked. A second SIGTERM or SIGINT ends the process at
// once, with exit code 128 + its number. SIGPIPE is ignored from then on: a log that nobody reads
// any more must not end a daemon. At most one object at a time. Thread-safe.
class ShutdownSignal {
 public:
  ShutdownSignal();
  ~ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  // Whether SIGTERM or SIGINT has come.
  bool requested() const { return requested_.load(); }

  // Waits for one of the signals at most `timeout`; returns requested().
  bool WaitFor(absl::Duration timeout);
  // The same once the end is requested: waits for SIGUSR1 and SIGHUP.
  void WaitForMore(absl::Duration timeout);

  // Whether SIGHUP, or SIGUSR1, has come since the last question; several count once.
  bool TakeReload() { return reload_.exchange(false); }
  bool TakeDescribe() { return describe_.exchange(false); }

  // SIGTERM or SIGINT once it came; 0 before.
  int number() const { return signal_.load(); }
  std::string name() const { return number() == SIGINT ? "SIGINT" : "SIGTERM"; }

 private:
  void Watch();
  void Take(int number);

  sigset_t signals_ = {};
  sigset_t signals_before_ = {};
  int wake_fd_ = -1;  // an eventfd: the object goes
  std::atomic<int> signal_{0};
  std::atomic<bool> requested_{false};
  std::atomic<bool> reload_{false};
  std::atomic<bool> describe_{false};
  Mutex mutex_;
  CondVar changed_;
  std::thread watcher_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_DAEMON_PROCESS_H_
