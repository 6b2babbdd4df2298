#ifndef SANGAM_COMMON_RPC_DAEMON_RELOAD_H_
#define SANGAM_COMMON_RPC_DAEMON_RELOAD_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/flags/flags.h"

namespace sangam {

// What a daemon does on SIGHUP: reads its flags' sources again, takes the new values of those that
// may change while it runs, and looks again at other things such as certificates. Every change, and
// what it is not, is logged. When a source has a fault no flag changes. Not thread-safe.
class DaemonReload {
 public:
  // `running`: the values that the daemon has. `read`: reads them anew.
  DaemonReload(FlagSet::Values running, std::function<absl::StatusOr<FlagSet::Values>()> read)
      : running_(std::move(running)), read_(std::move(read)) {}

  // A flag that `apply` gives a new value while the daemon runs.
  void OnChange(const std::string& flag,
                std::function<absl::Status(const std::string& value)> apply);
  // Something else that is read again. `look` returns what has changed, for the log; "": nothing.
  void OnReload(const std::string& what, std::function<absl::StatusOr<std::string>()> look);

  void Run();

 private:
  void Change(const std::string& flag, const std::string& value);

  FlagSet::Values running_;
  const std::function<absl::StatusOr<FlagSet::Values>()> read_;
  std::map<std::string, std::function<absl::Status(const std::string&)>> apply_;
  std::vector<std::pair<std::string, std::function<absl::StatusOr<std::string>()>>> look_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_DAEMON_RELOAD_H_
