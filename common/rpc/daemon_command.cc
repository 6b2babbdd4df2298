#include "common/rpc/daemon_command.h"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_sources.h"
#include "common/flags/flags.h"
#include "common/flags/man_page.h"
#include "common/flags/program.h"
#include "common/rpc/daemon_flags.h"

namespace sangam {
namespace {

// Full pipes and closed ones are failures: what was asked for did not arrive.
ExitCode Print(const std::string& text) {
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? ExitCode::kSuccess : ExitCode::kFailure;
}

absl::Status ReadArguments(const std::vector<std::string>& arguments, FlagSet* flags) {
  ASSIGN_OR_RETURN(const std::vector<std::string> rest, flags->Parse(arguments));
  if (rest.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("found '", rest[0], "', expected flags"));
}

// Returns the variables that say nothing.
absl::StatusOr<std::vector<std::string>> ReadOtherSources(
    const std::vector<std::string>& environment, const DaemonFlags& daemon, FlagSet* flags) {
  ASSIGN_OR_RETURN(std::vector<std::string> unknown, SetFromEnvironment(environment, flags));
  if (!daemon.config.empty()) {
    ASSIGN_OR_RETURN(const std::string text, ReadConfigFile(daemon.config));
    RETURN_IF_ERROR(SetFromConfigText(text, daemon.config, flags));
  }
  return unknown;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SetFromAllSources(const Invocation& invocation,
                                                           const DaemonFlags& daemon,
                                                           FlagSet* flags) {
  RETURN_IF_ERROR(ReadArguments(invocation.arguments, flags));
  return ReadOtherSources(invocation.environment, daemon, flags);
}

Invocation Invocation::Of(int argc, char** argv, char** environment) {
  Invocation invocation;
  if (argc > 1) invocation.arguments.assign(argv + 1, argv + argc);
  for (; *environment != nullptr; ++environment) invocation.environment.emplace_back(*environment);
  return invocation;
}

std::optional<ExitCode> ReadDaemonFlags(const Invocation& invocation, const ProgramText& program,
                                        const std::string& version, const DaemonFlags& daemon,
                                        FlagSet* flags) {
  const absl::Status read = ReadArguments(invocation.arguments, flags);
  if (!read.ok()) return static_cast<ExitCode>(EndWithUsage(program, read));
  if (flags->help_requested()) return Print(HelpPage(program, *flags));
  if (daemon.version) return Print(version);
  if (daemon.print_man) return Print(ManPage(program, *flags));
  const absl::StatusOr<std::vector<std::string>> unknown =
      ReadOtherSources(invocation.environment, daemon, flags);
  if (!unknown.ok()) {
    return static_cast<ExitCode>(EndDaemon(program, OfConfiguration(unknown.status())));
  }
  if (daemon.print_config) return Print(ConfigText(*flags));
  const absl::Status level = SetLogLevel(daemon.log_level);
  if (!level.ok()) return static_cast<ExitCode>(EndWithUsage(program, level));
  for (const std::string& variable : *unknown) {
    LogWarning("unknown environment variable", "name=%s", LogValue(variable));
  }
  return std::nullopt;
}

int EndDaemon(const ProgramText& program, const absl::Status& status) {
  // Without the payloads.
  const absl::Status shown(status.code(), status.message());
  std::fprintf(stderr, "%s: %s\n", program.name.c_str(), shown.ToString().c_str());
  return static_cast<int>(DaemonExitCodeFor(status));
}

int EndWithUsage(const ProgramText& program, const absl::Status& status) {
  std::fprintf(stderr, "%s: %s; see --help\n", program.name.c_str(),
               std::string(status.message()).c_str());
  return static_cast<int>(ExitCode::kUsage);
}

}  // namespace sangam
