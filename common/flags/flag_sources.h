#ifndef SANGAM_COMMON_FLAGS_FLAG_SOURCES_H_
#define SANGAM_COMMON_FLAGS_FLAG_SOURCES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/flags/flags.h"

// Where values of flags come from besides the command line: environment variables and a file. The
// order in which the sources are read does not matter; see Origin.
namespace sangam {

// "SANGAM_DATA_ROOT" for "data_root".
std::string EnvironmentName(absl::string_view flag);

// Whether the name, with its value, is one of those that Kubernetes sets in each pod for each
// service of the namespace (a service "sangam-server": SANGAM_SERVER_SERVICE_HOST,
// SANGAM_SERVER_PORT=tcp://..., SANGAM_SERVER_PORT_7070_TCP...). They say nothing to flags.
bool IsServiceLink(absl::string_view name, absl::string_view value);

// Sets the flags of which the environment ("NAME=value" each) has a SANGAM_ variable; an empty one
// counts as missing. Returns the SANGAM_ variables that name no flag and are no service link, each
// with the closest one: "SANGAM_LISTN; did you mean 'SANGAM_LISTEN'?".
// Errors: InvalidArgument  a malformed value
absl::StatusOr<std::vector<std::string>> SetFromEnvironment(
    const std::vector<std::string>& environment, FlagSet* flags);

// The value of a flag's variable, or "".
std::string EnvironmentValue(const std::vector<std::string>& environment, absl::string_view flag);

// Sets flags from the text of a file: `name = value` a line, spaces around both dropped; '-' and
// '_' in names are the same; '#' at the begin of a line or behind a space begins a comment. A name
// may stand there once, unless its flag repeats. `path` is for errors. `elsewhere`: whether a name
// that is no flag of this set is one of another program or verb, and passed over. Errors:
// InvalidArgument  with path:line: unknown name (with the closest), second value, malformed
//                          line or value
absl::Status SetFromConfigText(
    absl::string_view text, const std::string& path, FlagSet* flags,
    const std::function<bool(absl::string_view)>& elsewhere = [](absl::string_view) {
      return false;
    });

// The same with the file's content.
// Errors: InvalidArgument  it cannot be read, or is larger than 1 MiB
absl::StatusOr<std::string> ReadConfigFile(const std::string& path);

// "name = value  # where it comes from", one line for each flag that has a value and can stand in
// such a file.
std::string ConfigText(const FlagSet& flags);

}  // namespace sangam

#endif  // SANGAM_COMMON_FLAGS_FLAG_SOURCES_H_
