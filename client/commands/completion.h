#ifndef SANGAM_CLIENT_COMMANDS_COMPLETION_H_
#define SANGAM_CLIENT_COMMANDS_COMPLETION_H_

#include <functional>
#include <memory>
#include <vector>

#include "client/commands/command.h"

namespace sangam {

// Makes every verb of the program.
using MakeCommands = std::function<std::vector<std::unique_ptr<Command>>()>;

// `sangam completion bash|zsh|fish`: a script for the shell.
std::unique_ptr<Command> MakeCompletionCommand(MakeCommands commands);

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_COMPLETION_H_
