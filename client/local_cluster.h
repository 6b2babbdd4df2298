#ifndef SANGAM_CLIENT_LOCAL_CLUSTER_H_
#define SANGAM_CLIENT_LOCAL_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/child_process.h"

namespace sangam {

// Real daemons on this machine's loopback, as children of this process: server-0, which is also the
// coordinator, the other servers, and the workers. They die with this process. Not thread-safe.
class LocalCluster {
 public:
  struct Options {
    std::string server_binary;
    std::string worker_binary;
    uint64_t servers = 1;
    uint64_t workers = 1;
    // Flags of the workers; the coordinator has the data root, too, for data that it serves.
    uint64_t threads = 1;
    std::string data_root;
    std::string backend = "cpu";
    // Memory that a job may use on each worker, in bytes; 0: all there is.
    uint64_t memory_limit = 0;
    // Of the coordinator's state, for jobs that ask for checkpoints; empty: none is kept.
    std::string state_dir;
    // An existing directory: <name>.log of each daemon, and for a while its ready file.
    std::string log_directory;
    // For all daemons to become ready, together.
    absl::Duration start_deadline = absl::Seconds(30);
    // For the workers, then the other servers, then the coordinator to end; then they are killed.
    absl::Duration stop_deadline = absl::Seconds(5);
    // Asked often while waiting; an error ends the wait and is returned.
    std::function<absl::Status()> check = [] { return absl::OkStatus(); };
    // Asked often by Stop; true: kill what still runs, without waiting any longer.
    std::function<bool()> hurry = [] { return false; };
  };

  explicit LocalCluster(Options options) : options_(std::move(options)) {}
  // Kills what still runs.
  ~LocalCluster() = default;

  // Starts the daemons and waits until they are ready. Call it before anything of gRPC runs in this
  // process. After an error the daemons that have started still run: see Stop.
  // Errors: Unavailable        a daemon ended; names it, how it ended and its log
  //         DeadlineExceeded   a daemon is not ready in time
  //         others             a program cannot be started; as Options.check
  absl::Status Start();

  // Where the coordinator answers, "127.0.0.1:PORT".
  const std::string& coordinator() const { return coordinator_; }

  // Errors: Unavailable  a daemon has ended; names it, how it ended and its log
  absl::Status Check();

  // Ends the daemons, in order; what does not end in time is killed. Returns the names of those.
  std::vector<std::string> Stop();

  // The log of the daemon that an error of Start or Check was about; "" when there was none.
  const std::string& failed_log() const { return failed_log_; }
  // The log of the first daemon whose name stands in `text`, as a word of its own; "" if none does.
  std::string LogNamedIn(absl::string_view text) const;

 private:
  struct Daemon {
    std::string name;
    std::string log;
    std::string ready_file;
    std::unique_ptr<ChildProcess> process;
  };

  absl::Status StartDaemon(const std::string& name, const std::string& program,
                           std::vector<std::string> arguments);
  // Waits for the ready file of daemon `index`; returns what stands in it.
  absl::StatusOr<std::string> AwaitReady(size_t index, absl::Time until);
  absl::Status CheckDaemon(Daemon& daemon);
  // Asks daemons [begin, end) to end and waits for them; kills the ones that take too long.
  void StopRange(size_t begin, size_t end, std::vector<std::string>* killed);

  const Options options_;
  std::string coordinator_;
  std::string failed_log_;
  // In the order of their start: server-0, further servers, workers.
  std::vector<Daemon> daemons_;
};

}  // namespace sangam

#endif  // SANGAM_CLIENT_LOCAL_CLUSTER_H_
