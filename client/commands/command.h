#ifndef SANGAM_CLIENT_COMMANDS_COMMAND_H_
#define SANGAM_CLIENT_COMMANDS_COMMAND_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/console.h"
#include "common/base/clock.h"
#include "common/base/exit_code.h"
#include "common/flags/flags.h"

namespace sangam {

// What a command gets from main; tests bring their own.
struct Environment {
  Console* console = nullptr;
  const Clock* clock = &Clock::Real();
  // How often the user has asked to stop (Ctrl-C).
  std::function<int()> interrupts = [] { return 0; };
  // Where the coordinator is when no flag says so, "host:port".
  std::string coordinator = "127.0.0.1:7070";
  // "NAME=value" each: what a flag's default may come from.
  std::vector<std::string> variables;
  // The directory of the running program, to find the daemons' programs by.
  std::string program_directory = ".";

  // Errors: Cancelled  the user has asked to stop, or nobody reads the output any more
  absl::Status CheckInterrupt() const;
};

// What help says of a command.
struct CommandText {
  std::string name;
  // Arguments that are not flags, "FILE"; their number is exactly that of the words, but
  // those in brackets, "[JOB]", may be left out.
  std::string arguments;
  // One line for the list of commands.
  std::string summary;
  // Paragraphs for the command's own help, in lines of at most 80 columns.
  std::string details;
  std::vector<std::string> examples;
};

// One verb of the program. Used once.
class Command {
 public:
  virtual ~Command() = default;
  virtual CommandText text() const = 0;
  // Adds the command's flags; their targets are members of the command.
  virtual void AddFlags(const Environment& environment, FlagSet* flags) = 0;
  // Flags are set and the number of arguments is right. An error is shown to the user; see
  // UsageError.
  virtual absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                                       const Environment& environment) = 0;
};

// An error of the command line: the program ends with kUsage and points to the help.
absl::Status UsageError(absl::string_view message);
absl::Status UsageError(const absl::Status& status);
bool IsUsageError(const absl::Status& status);

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_COMMAND_H_
