#ifndef SANGAM_COMMON_RPC_DAEMON_COMMAND_H_
#define SANGAM_COMMON_RPC_DAEMON_COMMAND_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/exit_code.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"
#include "common/rpc/daemon_flags.h"

// The begin and the end of every daemon's main function.
namespace sangam {

// What a process was started with.
struct Invocation {
  std::vector<std::string> arguments;    // without the program
  std::vector<std::string> environment;  // "NAME=value"
  // `environment` ends with a nullptr.
  static Invocation Of(int argc, char** argv, char** environment);
};

// Sets the flags from all their sources and answers --help, --version (`version`: see VersionLine)
// and --print_config. A value: the process ends with it; all has been said. `daemon`'s flags are in
// the set.
std::optional<ExitCode> ReadDaemonFlags(const Invocation& invocation, const ProgramText& program,
                                        const std::string& version, const DaemonFlags& daemon,
                                        FlagSet* flags);

// Sets the flags from all their sources, and nothing else. Returns the SANGAM_ variables that say
// nothing; see SetFromEnvironment.
// Errors: InvalidArgument
absl::StatusOr<std::vector<std::string>> SetFromAllSources(const Invocation& invocation,
                                                           const DaemonFlags& daemon,
                                                           FlagSet* flags);

// The values that a process would have that began now. `Flags`: ServerFlags or WorkerFlags.
template <typename Flags>
absl::StatusOr<FlagSet::Values> ReadValues(const Invocation& invocation) {
  Flags flags;
  FlagSet set;
  flags.AddFlags(&set);
  const auto unknown = SetFromAllSources(invocation, flags.daemon, &set);
  if (!unknown.ok()) return unknown.status();
  return set.values();
}

// Says on the error stream why the daemon ends. The result is for main.
int EndDaemon(const ProgramText& program, const absl::Status& status);

// The same for an error of the command line: kUsage.
int EndWithUsage(const ProgramText& program, const absl::Status& status);

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_DAEMON_COMMAND_H_
