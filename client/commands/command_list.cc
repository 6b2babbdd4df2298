#include "client/commands/command_list.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/commands/cancel.h"
#include "client/commands/certs.h"
#include "client/commands/checkpoint.h"
#include "client/commands/cluster.h"
#include "client/commands/command.h"
#include "client/commands/completion.h"
#include "client/commands/config.h"
#include "client/commands/connection.h"
#include "client/commands/delete.h"
#include "client/commands/describe.h"
#include "client/commands/doctor.h"
#include "client/commands/export.h"
#include "client/commands/list.h"
#include "client/commands/logs.h"
#include "client/commands/manual.h"
#include "client/commands/plan.h"
#include "client/commands/resume.h"
#include "client/commands/run.h"
#include "client/commands/submit.h"
#include "client/commands/tokens.h"
#include "client/commands/trace.h"
#include "client/commands/wait.h"
#include "client/commands/watch.h"
#include "client/error_json.h"
#include "client/human_format.h"
#include "common/base/exit_code.h"
#include "common/base/status_macros.h"
#include "common/base/suggestion.h"
#include "common/errors/error_details.h"
#include "common/flags/flag_sources.h"
#include "common/flags/flags.h"
#include "common/flags/program.h"
#include "common/flags/wrap.h"

namespace sangam {
namespace {

using Commands = std::vector<std::unique_ptr<Command>>;

// In the order of the help.
Commands AllCommands() {
  Commands commands;
  commands.push_back(MakeRunCommand());
  commands.push_back(MakePlanCommand());
  commands.push_back(MakeSubmitCommand());
  commands.push_back(MakeListCommand());
  commands.push_back(MakeDescribeCommand());
  commands.push_back(MakeWatchCommand());
  commands.push_back(MakeWaitCommand());
  commands.push_back(MakeLogsCommand());
  commands.push_back(MakeCancelCommand());
  commands.push_back(MakeDeleteCommand());
  commands.push_back(MakeTraceCommand());
  commands.push_back(MakeExportCommand());
  commands.push_back(MakeCheckpointCommand());
  commands.push_back(MakeResumeCommand());
  commands.push_back(MakeClusterCommand());
  commands.push_back(MakeCertsCommand());
  commands.push_back(MakeDoctorCommand());
  commands.push_back(MakeTokensCommand());
  commands.push_back(MakeConfigCommand());
  commands.push_back(MakeCompletionCommand(&AllCommands));
  return commands;
}

// Of a verb and its arguments, beside which its summary stands.
constexpr size_t kUsageWidth = 18;
constexpr size_t kColumns = 80;

std::string ProgramHelp(const Commands& commands) {
  std::string text =
      "Sangam trains neural networks with parameter servers.\n\n"
      "Usage: sangam VERB [ARGUMENT] [--FLAG=VALUE]...\n\n";
  for (const std::unique_ptr<Command>& command : commands) {
    const CommandText words = command->text();
    const std::string usage =
        words.arguments.empty() ? words.name : absl::StrCat(words.name, " ", words.arguments);
    const size_t column = 2 + kUsageWidth + 1;
    if (usage.size() <= kUsageWidth) {
      absl::StrAppendFormat(&text, "  %-*s %s\n", static_cast<int>(kUsageWidth), usage,
                            words.summary);
    } else {
      absl::StrAppend(&text, "  ", usage, "\n", std::string(column, ' '), words.summary, "\n");
    }
  }
  absl::StrAppend(&text,
                  "\nsangam VERB --help tells more of a verb and shows examples; sangam --version\n"
                  "the version.\n",
                  absl::StrJoin(WrapWords(ClientExitCodes(), kColumns), "\n"), "\n");
  return text;
}

std::string CommandHelp(const CommandText& words, const FlagSet& flags) {
  std::string text = absl::StrCat(words.summary, "\n\nUsage: sangam ", words.name,
                                  words.arguments.empty() ? "" : absl::StrCat(" ", words.arguments),
                                  " [--FLAG=VALUE]...\n\n", words.details, "\nFlags\n",
                                  flags.Help(), "\nExamples\n");
  for (const std::string& example : words.examples) absl::StrAppend(&text, "  ", example, "\n");
  return text;
}

absl::Status CheckArguments(const CommandText& words, const std::vector<std::string>& arguments) {
  const std::vector<std::string> expected = absl::StrSplit(words.arguments, ' ', absl::SkipEmpty());
  // Those in brackets come last and may be left out.
  const size_t needed = std::count_if(expected.begin(), expected.end(),
                                      [](const std::string& word) { return word[0] != '['; });
  if (arguments.size() < needed) {
    return UsageError(absl::StrCat(expected[arguments.size()], " is missing"));
  }
  if (arguments.size() > expected.size()) {
    return UsageError(absl::StrCat("unexpected argument '", arguments[expected.size()], "'"));
  }
  return absl::OkStatus();
}

// Flags that verbs share come from the environment and from a file too.
absl::Status ReadOtherSources(const Environment& environment, FlagSet* flags) {
  Connection connection;
  FlagSet shared;
  connection.AddFlags(environment, &shared);
  connection.AddOutputFlag(&shared);
  flags->LimitSources(shared);
  // Variables of daemons, and those that this verb has no flag for, are no fault.
  RETURN_IF_ERROR(SetFromEnvironment(environment.variables, flags).status());
  const FlagSet::Flag* const config = flags->Find("config");
  if (config == nullptr || config->given.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, ReadConfigFile(config->given));
  return SetFromConfigText(text, config->given, flags, [&shared](absl::string_view name) {
    return shared.Find(name) != nullptr;
  });
}

// `*json`: whether the output is for programs.
absl::StatusOr<ExitCode> RunCommand(const std::vector<std::string>& arguments,
                                    const Environment& environment, Command* command, bool* json) {
  FlagSet flags;
  command->AddFlags(environment, &flags);
  const absl::StatusOr<std::vector<std::string>> positional = flags.Parse(arguments);
  const FlagSet::Flag* const output = flags.Find("output");
  *json = output != nullptr && output->given == "json";
  if (!positional.ok()) return UsageError(positional.status());
  if (flags.help_requested()) {
    environment.console->Out(CommandHelp(command->text(), flags));
    return ExitCode::kSuccess;
  }
  RETURN_IF_ERROR(CheckArguments(command->text(), *positional));
  const absl::Status others = ReadOtherSources(environment, &flags);
  if (!others.ok()) return UsageError(others);
  return command->Run(*positional, environment);
}

// The faults of a request one a line, where the error has them apart: a message can be cut.
std::string Message(const absl::Status& status) {
  const std::vector<FieldViolation> violations = FieldViolationsOf(status);
  if (violations.empty()) return std::string(status.message());
  std::string text;
  for (const FieldViolation& violation : violations) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", violation.field, ": ", violation.description);
  }
  return text;
}

// Shows an error and turns it into the program's end.
ExitCode Fail(const absl::Status& status, const std::string& verb, bool json,
              const Environment& environment) {
  const std::string message = Printable(Message(status));
  if (environment.interrupts() > 0 && absl::IsCancelled(status)) {
    environment.console->Err(absl::StrCat("sangam ", verb, ": ", message, "\n"));
    return ExitCode::kInterrupted;
  }
  if (json) {
    environment.console->Err(absl::StrCat(ErrorToJson(status), "\n"));
    return IsUsageError(status) ? ExitCode::kUsage : ExitCodeFor(status);
  }
  std::string hint;
  if (IsUsageError(status)) {
    hint = absl::StrCat("'sangam ", verb, " --help' shows what it takes.\n");
  } else if (absl::IsUnavailable(status) && absl::StartsWith(message, "coordinator")) {
    hint =
        "Does sangam-server run there? --coordinator=HOST:PORT or the environment variable "
        "SANGAM_COORDINATOR name another one; 'sangam doctor' looks for the cause.\n";
  }
  environment.console->Err(absl::StrCat("sangam ", verb, ": ", message, "\n", hint));
  return IsUsageError(status) ? ExitCode::kUsage : ExitCodeFor(status);
}

bool AsksForHelp(absl::string_view word) {
  return word == "--help" || word == "-h" || word == "help";
}

ExitCode UnknownVerb(const std::string& word, const Commands& commands, Console* console) {
  std::vector<std::string> names = {"help"};
  for (const std::unique_ptr<Command>& command : commands) names.push_back(command->text().name);
  const bool flag = absl::StartsWith(word, "-");
  console->Err(absl::StrCat("sangam: ", flag ? "unknown flag " : "unknown verb '", word,
                            flag ? "; flags come behind the verb" : "'", DidYouMean(word, names),
                            "\n'sangam --help' lists the verbs.\n"));
  return ExitCode::kUsage;
}

}  // namespace

ExitCode RunCommandLine(const std::vector<std::string>& arguments, const Environment& environment) {
  const Commands commands = AllCommands();
  if (arguments.empty()) {
    environment.console->Err(ProgramHelp(commands));
    return ExitCode::kUsage;
  }
  // `sangam help VERB` is `sangam VERB --help`.
  std::vector<std::string> words = arguments;
  if (AsksForHelp(words[0]) && words.size() > 1) {
    words[0] = words[1];
    words[1] = "--help";
  }
  const std::string verb = words[0];
  if (AsksForHelp(verb)) {
    environment.console->Out(ProgramHelp(commands));
    return ExitCode::kSuccess;
  }
  if (verb == "--version" || verb == "version") {
    environment.console->Out(VersionLine("sangam"));
    return ExitCode::kSuccess;
  }
  // For the build: help does not tell of it.
  if (verb == "--print_man") {
    environment.console->Out(Manual(commands, environment));
    return ExitCode::kSuccess;
  }
  const auto found =
      std::find_if(commands.begin(), commands.end(),
                   [&verb](const std::unique_ptr<Command>& c) { return c->text().name == verb; });
  if (found == commands.end()) return UnknownVerb(verb, commands, environment.console);
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  bool json = false;
  const absl::StatusOr<ExitCode> code = RunCommand(rest, environment, found->get(), &json);
  return code.ok() ? *code : Fail(code.status(), verb, json, environment);
}

}  // namespace sangam
