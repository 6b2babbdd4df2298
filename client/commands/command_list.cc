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
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/commands/cancel.h"
#include "client/commands/checkpoint.h"
#include "client/commands/cluster.h"
#include "client/commands/command.h"
#include "client/commands/delete.h"
#include "client/commands/describe.h"
#include "client/commands/export.h"
#include "client/commands/list.h"
#include "client/commands/logs.h"
#include "client/commands/plan.h"
#include "client/commands/resume.h"
#include "client/commands/run.h"
#include "client/commands/submit.h"
#include "client/commands/trace.h"
#include "client/commands/wait.h"
#include "client/commands/watch.h"
#include "client/flags.h"
#include "client/human_format.h"
#include "common/base/status_macros.h"
#include "common/base/suggestion.h"
#include "common/base/version.h"

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
  return commands;
}

// Of a verb and its arguments, beside which its summary stands.
constexpr size_t kUsageWidth = 18;

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
                  "the version.\n"
                  "Exit codes: 0 success, 1 failure, 2 wrong usage or a job that is refused,\n"
                  "3 job failed, 4 job cancelled, 5 not found, 7 coordinator out of reach,\n"
                  "8 no room, 9 timeout, 65 damaged data, 130 interrupted.\n");
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

absl::StatusOr<ExitCode> RunCommand(const std::vector<std::string>& arguments,
                                    const Environment& environment, Command* command) {
  FlagSet flags;
  command->AddFlags(environment, &flags);
  const absl::StatusOr<std::vector<std::string>> positional = flags.Parse(arguments);
  if (!positional.ok()) return UsageError(positional.status());
  if (flags.help_requested()) {
    environment.console->Out(CommandHelp(command->text(), flags));
    return ExitCode::kSuccess;
  }
  RETURN_IF_ERROR(CheckArguments(command->text(), *positional));
  return command->Run(*positional, environment);
}

// Shows an error and turns it into the program's end.
ExitCode Fail(const absl::Status& status, const std::string& verb, const Environment& environment) {
  const std::string message = Printable(status.message());
  if (environment.interrupts() > 0 && absl::IsCancelled(status)) {
    environment.console->Err(absl::StrCat("sangam ", verb, ": ", message, "\n"));
    return ExitCode::kInterrupted;
  }
  std::string hint;
  if (IsUsageError(status)) {
    hint = absl::StrCat("'sangam ", verb, " --help' shows what it takes.\n");
  } else if (absl::IsUnavailable(status) && absl::StartsWith(message, "coordinator")) {
    hint =
        "Does sangam-server run there? --coordinator=HOST:PORT or the environment variable "
        "SANGAM_COORDINATOR name another one.\n";
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
    environment.console->Out(
        absl::StrCat("sangam ", kVersion, " (protocol ", kProtocolVersion, ")\n"));
    return ExitCode::kSuccess;
  }
  const auto found =
      std::find_if(commands.begin(), commands.end(),
                   [&verb](const std::unique_ptr<Command>& c) { return c->text().name == verb; });
  if (found == commands.end()) return UnknownVerb(verb, commands, environment.console);
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  const absl::StatusOr<ExitCode> code = RunCommand(rest, environment, found->get());
  return code.ok() ? *code : Fail(code.status(), verb, environment);
}

}  // namespace sangam
