#ifndef SANGAM_CLIENT_COMMANDS_COMMAND_LIST_H_
#define SANGAM_CLIENT_COMMANDS_COMMAND_LIST_H_

#include <string>
#include <vector>

#include "client/commands/command.h"

namespace sangam {

// Runs the program with the arguments behind its name: chooses the verb, parses its flags, shows
// help and errors.
ExitCode RunCommandLine(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_COMMAND_LIST_H_
