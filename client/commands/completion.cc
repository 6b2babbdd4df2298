#include "client/commands/completion.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "common/base/suggestion.h"
#include "common/flags/completion.h"
#include "common/flags/flags.h"

namespace sangam {
namespace {

class CompletionCommand : public Command {
 public:
  explicit CompletionCommand(MakeCommands commands) : commands_(std::move(commands)) {}

  CommandText text() const override {
    return {"completion",
            "bash|zsh|fish",
            "Print a script that teaches a shell to complete verbs and flags.",
            "For zsh put the script as _sangam into a folder of $fpath.\n",
            {"sangam completion bash > ~/.local/share/bash-completion/completions/sangam",
             "source <(sangam completion bash)",
             "sangam completion fish > ~/.config/fish/completions/sangam.fish"}};
  }

  void AddFlags(const Environment& /*environment*/, FlagSet* /*flags*/) override {}

  absl::StatusOr<ExitCode> Run(const std::vector<std::string>& arguments,
                               const Environment& environment) override {
    const std::vector<std::unique_ptr<Command>> commands = commands_();
    std::deque<FlagSet> sets;  // the verbs point to them
    std::vector<CompletedVerb> verbs;
    for (const std::unique_ptr<Command>& command : commands) {
      command->AddFlags(environment, &sets.emplace_back());
      const CommandText words = command->text();
      verbs.push_back({words.name, words.summary, words.arguments, &sets.back()});
    }
    const std::string& shell = arguments[0];
    if (shell == "bash") {
      environment.console->Out(BashCompletion("sangam", verbs));
    } else if (shell == "zsh") {
      environment.console->Out(ZshCompletion("sangam", verbs));
    } else if (shell == "fish") {
      environment.console->Out(FishCompletion("sangam", verbs));
    } else {
      return UsageError(absl::StrCat("unknown shell '", shell, "', expected bash, zsh or fish",
                                     DidYouMean(shell, {"bash", "zsh", "fish"})));
    }
    return ExitCode::kSuccess;
  }

 private:
  const MakeCommands commands_;
};

}  // namespace

std::unique_ptr<Command> MakeCompletionCommand(MakeCommands commands) {
  return std::make_unique<CompletionCommand>(std::move(commands));
}

}  // namespace sangam
