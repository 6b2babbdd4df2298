#ifndef SANGAM_CLIENT_CHILD_PROCESS_H_
#define SANGAM_CLIENT_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace sangam {

// A program that this process has started and that does not outlive it: the kernel kills it when
// the thread that started it ends, however that happens. It has a process group of its own, so that
// a Ctrl-C at the terminal does not reach it. Not thread-safe.
class ChildProcess {
 public:
  // Starts `program` (a path) with `arguments`. It reads nothing; both its streams are appended to
  // the file `log_path`. Variables that begin with SANGAM_ are not handed on: what a user has set
  // for a cluster is not meant for daemons of his own. Errors: as the system says, naming the
  // program or the file
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::string& program, const std::vector<std::string>& arguments,
      const std::string& log_path);
  // Kills the whole group when it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Whether it has not ended yet. Once it has, what is left of its group is killed.
  bool Running();

  // "exited with status 3" or "was killed by signal 9 (Killed)"; "" while it runs.
  const std::string& ending() const { return ending_; }
  // Whether it ended by itself with status 0.
  bool succeeded() const { return succeeded_; }

  // Sends a signal to the process; nothing once it has ended.
  void Signal(int signal);

  // Waits for its end, at most for `deadline`. Returns whether it has ended.
  bool WaitFor(absl::Duration deadline);

  // Kills the whole group and waits for the end.
  void Kill();

  pid_t pid() const { return pid_; }

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  void Reap(int wait_status);

  const pid_t pid_;
  bool ended_ = false;
  bool succeeded_ = false;
  std::string ending_;
};

}  // namespace sangam

#endif  // SANGAM_CLIENT_CHILD_PROCESS_H_
